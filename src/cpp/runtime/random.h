// The complete state of the generator, and the streams that random ops draw
// from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

namespace ea {

// A seed and an offset identify a stream of random numbers. The state of the
// generator is the seed and the number of passes and single draws so far.
struct RandomState {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
};

void manual_seed(std::uint64_t seed);  // sets the offset to 0
RandomState random_state();
void set_random_state(RandomState state);

// Identifies a parameter or a dropout: a hash of its dotted name, or 0 for an
// op without a name. It is the same on every machine and in every version,
// since saved runs depend on it.
using StreamSite = std::uint64_t;
StreamSite stream_site(std::string_view name);

// Returns the stream of one random op at `site`. Within PassStreams it depends
// only on the pass and the site; otherwise every call advances the generator by
// one.
RandomState next_random_stream(StreamSite site = 0);

// While it exists, provides the streams of this thread's random ops instead of
// the generator. The innermost scope is used.
class StreamScope {
 public:
  StreamScope();
  virtual ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

  virtual RandomState next(StreamSite site) = 0;

 protected:
  RandomState from_outside(StreamSite site) const;

 private:
  StreamScope* outer_;
};

// One pass through a model, or one initialisation: advances the generator by
// one and gives every site its own stream. So two models that differ in one
// part share all other streams, pass by pass. A site that draws several times
// in a pass gets a new stream each time.
class PassStreams final : public StreamScope {
 public:
  PassStreams() : pass_(from_outside(0)) {}
  RandomState next(StreamSite site) override;

 private:
  RandomState pass_;
  std::map<StreamSite, std::uint64_t> visits_;
};

// Records the streams that are used.
class NoteStreams final : public StreamScope {
 public:
  explicit NoteStreams(std::vector<RandomState>& notes) : notes_(notes) {}
  RandomState next(StreamSite site) override;

 private:
  std::vector<RandomState>& notes_;
};

// Replays the recorded streams and does not change the generator. Throws
// InputError when more are requested.
class ReplayStreams final : public StreamScope {
 public:
  explicit ReplayStreams(const std::vector<RandomState>& streams)
      : streams_(streams) {}
  RandomState next(StreamSite site) override;
  bool finished() const { return at_ == streams_.size(); }

 private:
  const std::vector<RandomState>& streams_;
  std::size_t at_ = 0;
};

}  // namespace ea
