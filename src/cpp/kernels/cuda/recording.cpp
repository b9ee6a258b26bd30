// Stream capture, and memory with fixed addresses for what is captured.
#include "kernels/cuda/recording.h"

#include <algorithm>
#include <utility>

#include "kernels/cuda/stream.h"
#include "runtime/check.h"

namespace ea::cuda {

// Memory that recordings share: they come after one another in the stream.
struct Recorder::Block {
  Block(Recorder& recorder, std::size_t bytes)
      : owner(recorder), memory(owner.memory_.allocate(bytes)) {}
  ~Block() { owner.deallocate(memory); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  Recorder& owner;
  MemoryBlock memory;
};

namespace {

struct Graph {
  Graph() = default;
  ~Graph() {
    if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  cudaGraph_t graph = nullptr;
};

// What a graph needs to run, for as long as it does.
struct Runnable {
  Runnable(int index, std::shared_ptr<void> kept_memory)
      : memory(std::move(kept_memory)), done(index) {}
  ~Runnable() {
    try {
      done.wait_on_host();
    } catch (const Error&) {  // a device that fails says so at its next use
    }
    if (graph != nullptr) static_cast<void>(cudaGraphExecDestroy(graph));
  }
  Runnable(const Runnable&) = delete;
  Runnable& operator=(const Runnable&) = delete;
  std::shared_ptr<void> memory;
  Event done;  // of the last start
  cudaGraphExec_t graph = nullptr;
  std::mutex starting;  // CUDA's graphs are not for several threads at a time
};

class CudaWork final : public RecordedWork {
 public:
  CudaWork(Recorder& recorder, int index, cudaStream_t stream,
           std::shared_ptr<Runnable> runnable)
      : recorder_(recorder),
        index_(index),
        stream_(stream),
        runnable_(std::move(runnable)) {}
  ~CudaWork() override {
    recorder_.after([last = std::move(runnable_)] {});
  }

  void start() override {
    recorder_.refuse("starts recorded work",
                     "start it before or after what is recorded");
    const UseDevice use(index_);
    const std::lock_guard lock(runnable_->starting);
    check_cuda(cudaGraphLaunch(runnable_->graph, stream_), "start");
    runnable_->done.record(stream_);
  }

 private:
  Recorder& recorder_;
  int index_;
  cudaStream_t stream_;
  std::shared_ptr<Runnable> runnable_;
};

// Throws DeviceError unless the call that makes a graph succeeded.
void check_graph(int index, cudaError_t status) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  fail<DeviceError>("record",
                    "{}: CUDA does not record this work: {} ({}). Do the same "
                    "work once before, so that what it makes on first use is "
                    "there; or go on without recording",
                    Device{DeviceType::cuda, index}, cudaGetErrorString(status),
                    cudaGetErrorName(status));
}

}  // namespace

Recorder::Recorder(int index, cudaStream_t stream, DeviceMemory& memory)
    : index_(index), stream_(stream), memory_(memory) {}

bool Recorder::is_mine() const {
  return owner_.load() == std::this_thread::get_id();
}

bool Recorder::records() const { return is_diverted(index_); }

// --- memory -----------------------------------------------------------------

MemoryBlock Recorder::allocate(std::size_t bytes) {
  if (!is_mine()) return memory_.allocate(bytes);
  if (mode_ == Mode::recording) return place(bytes);
  const MemoryBlock block = memory_.allocate(bytes);
  const std::lock_guard lock(mutex_);
  if (const auto offset = space_->places.take(block.capacity)) {
    places_[block.data] = {space_, *offset};
  }
  return block;
}

MemoryBlock Recorder::place(std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    OffsetPool& places = space_->places;
    const std::size_t before = places.bytes();
    const auto offset = places.take(bytes);
    if (offset) {
      auto* const data =
          static_cast<unsigned char*>(space_->block->memory.data) + *offset;
      places_[data] = {space_, *offset};
      return {data, places.bytes() - before};
    }
  }
  refuse("needs more memory than the recording was given",
         "measure() the same work, from the same state, and give that");
  return {};
}

void Recorder::deallocate(MemoryBlock block) noexcept {
  if (block.data == nullptr) return;
  std::shared_ptr<Space> last;  // let go of after the lock
  bool of_before = false;
  if (watches_) {
    const std::lock_guard lock(mutex_);
    const auto found = places_.find(block.data);
    if (found != places_.end()) {
      last = std::move(found->second.space);
      last->places.give(found->second.offset);
      places_.erase(found);
      watches_ = mode_ != Mode::none || !places_.empty();
      if (last->block != nullptr) return;
    } else {
      of_before = mode_ == Mode::recording && is_mine();
    }
  }
  if (of_before) {
    after([this, block] { memory_.deallocate(block); });
  } else {
    memory_.deallocate(block);
  }
}

std::shared_ptr<Recorder::Block> Recorder::block_of(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  std::shared_ptr<Block> block = block_.lock();
  if (block == nullptr || block->memory.capacity < bytes) {
    block = std::make_shared<Block>(*this, bytes);
    block_ = block;
  }
  return block;
}

// --- from begin to end ------------------------------------------------------

void Recorder::begin(Mode mode) {
  const std::lock_guard lock(mutex_);
  EA_CHECK_AS(DeviceError, mode_ == Mode::none, "record",
              "{}: {} thread measures or records there already; end that first",
              Device{DeviceType::cuda, index_}, is_mine() ? "this" : "another");
  space_ = std::make_shared<Space>();
  mode_ = mode;
  owner_ = std::this_thread::get_id();
  watches_ = true;
}

Recorder::Ended Recorder::end() noexcept {
  Ended ended;
  std::vector<std::function<void()>> later;
  divert(index_, nullptr);
  {
    const std::lock_guard lock(mutex_);
    if (mode_ == Mode::measuring) {
      std::erase_if(
          places_, [&](const auto& one) { return one.second.space == space_; });
    }
    // The next recording must not place its memory where some is still held.
    if (space_->block != nullptr && space_->places.places() > 0) {
      block_.reset();
    }
    mode_ = Mode::none;
    owner_ = std::thread::id();
    watches_ = !places_.empty();
    ended = {std::exchange(space_, nullptr), std::exchange(refusal_, {})};
    later.swap(later_);
  }
  for (const auto& fn : later) {
    try {
      fn();
    } catch (const Error&) {  // a device that fails says so at its next use
    }
  }
  return ended;
}

void Recorder::measure() { begin(Mode::measuring); }

std::size_t Recorder::measured() {
  EA_CHECK_AS(DeviceError, is_mine() && mode_ == Mode::measuring, "record",
              "{}: this thread does not measure: measure() comes first",
              Device{DeviceType::cuda, index_});
  return end().space->places.most();
}

void Recorder::record(std::size_t bytes) {
  begin(Mode::recording);
  try {
    const UseDevice use(index_);
    auto space = std::make_shared<Space>(block_of(bytes), OffsetPool(bytes));
    {
      const std::lock_guard lock(mutex_);
      space_ = std::move(space);
    }
    if (recording_ == nullptr) {
      check_cuda(cudaStreamCreateWithFlags(&recording_, cudaStreamNonBlocking),
                 "record");
    }
    check_graph(index_, cudaStreamBeginCapture(
                            recording_, cudaStreamCaptureModeThreadLocal));
    divert(index_, recording_);
  } catch (...) {
    static_cast<void>(end());
    throw;
  }
}

std::unique_ptr<RecordedWork> Recorder::recorded() {
  EA_CHECK_AS(DeviceError, records(), "record",
              "{}: this thread does not record: record() comes first",
              Device{DeviceType::cuda, index_});
  const UseDevice use(index_);
  Graph made;
  const cudaError_t status = cudaStreamEndCapture(recording_, &made.graph);
  const Ended ended = end();
  EA_CHECK_AS(DeviceError, ended.refusal.empty(), "record", "{}",
              ended.refusal);
  check_graph(index_, status);
  std::size_t held = 0, bytes = 0;
  {
    const std::lock_guard lock(mutex_);
    held = ended.space->places.places();
    bytes = ended.space->places.bytes();
  }
  EA_CHECK_AS(DeviceError, held == 0, "record",
              "{}: {} blocks of the recording's memory, {} bytes, are still "
              "held at its end, and every start would overwrite them; copy "
              "results into tensors made before (copy_()), and let go of the "
              "rest, gradients included",
              Device{DeviceType::cuda, index_}, held, bytes);
  auto runnable = std::make_shared<Runnable>(index_, ended.space->block);
  check_graph(index_, cudaGraphInstantiate(&runnable->graph, made.graph, 0));
  return std::make_unique<CudaWork>(*this, index_, stream_,
                                    std::move(runnable));
}

void Recorder::cancel() noexcept {
  if (!is_mine()) return;
  if (records()) {
    Graph made;
    static_cast<void>(cudaStreamEndCapture(recording_, &made.graph));
    static_cast<void>(cudaGetLastError());
  }
  static_cast<void>(end());
}

void Recorder::refuse(const char* does, const char* instead) {
  if (!records()) return;
  std::string why = format("{}: the work {}, which cannot be recorded; {}",
                           Device{DeviceType::cuda, index_}, does, instead);
  {
    const std::lock_guard lock(mutex_);
    if (refusal_.empty()) refusal_ = why;
  }
  fail<DeviceError>("record", "{}", why);
}

void Recorder::after(std::function<void()> fn) noexcept {
  if (records()) {
    const std::lock_guard lock(mutex_);
    later_.push_back(std::move(fn));
    return;
  }
  try {
    fn();
  } catch (const Error&) {  // a device that fails says so at its next use
  }
}

}  // namespace ea::cuda
