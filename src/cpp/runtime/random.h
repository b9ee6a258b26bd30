// The generator's whole state: a seed and how many draws were made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ea {

struct RandomState {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
};

void manual_seed(std::uint64_t seed);  // sets the offset to 0
RandomState random_state();
void set_random_state(RandomState state);

// The (seed, stream) of one random op; every call returns a new stream, unless
// a ReplayStreams lives on this thread.
RandomState next_random_stream();

// What stands between the random ops of this thread and the generator while it
// lives; the innermost is asked first.
class StreamScope {
 public:
  StreamScope();
  virtual ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

  virtual RandomState next() = 0;

 protected:
  RandomState from_outside() const;

 private:
  StreamScope* outer_;
};

// Writes down the streams that are drawn.
class NoteStreams final : public StreamScope {
 public:
  explicit NoteStreams(std::vector<RandomState>& notes) : notes_(notes) {}
  RandomState next() override;

 private:
  std::vector<RandomState>& notes_;
};

// Hands these streams out and leaves the generator alone. Throws InputError
// when more are drawn.
class ReplayStreams final : public StreamScope {
 public:
  explicit ReplayStreams(const std::vector<RandomState>& streams)
      : streams_(streams) {}
  RandomState next() override;
  bool finished() const { return at_ == streams_.size(); }

 private:
  const std::vector<RandomState>& streams_;
  std::size_t at_ = 0;
};

}  // namespace ea
