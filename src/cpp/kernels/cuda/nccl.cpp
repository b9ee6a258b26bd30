// NCCL communicator on its own stream; events order it with the device's.
#include "kernels/cuda/nccl.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>

#include "kernels/cuda/device.h"
#include "kernels/cuda/nccl_library.h"
#include "kernels/cuda/stream.h"
#include "runtime/check.h"

namespace ea::cuda {

namespace {

using Clock = std::chrono::steady_clock;

// Time abort() waits for another thread's call, which may never return.
constexpr std::chrono::milliseconds kPatience{500};

void check(NcclResult status, const char* what) {
  if (status == NcclResult::success) return;
  fail<Error>("nccl", "{}: {}; set NCCL_DEBUG=INFO to see more", what,
              nccl_library().error_string(status));
}

cudaStream_t make_stream() {
  cudaStream_t made = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking),
             "communicator");
  return made;
}

// A small block of device memory, freed by the destructor.
struct Block {
  Block(int device, std::size_t size)
      : index(device), block(allocate_on(device, size)) {}
  ~Block() { deallocate_on(index, block); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  int index;
  MemoryBlock block;
};

class Nccl final : public Communicator {
 public:
  Nccl(int index, int size, int rank, const NcclId& id)
      : index_(index),
        size_(size),
        rank_(rank),
        device_stream_(stream_of(index)),
        ready_(index),
        done_(index) {
    const UseDevice use(index);
    NcclComm comm = nullptr;
    check(nccl_library().init_rank(&comm, size, id, rank), "ncclCommInitRank");
    comm_ = comm;
    stream_ = make_stream();  // never destroyed, like all streams
    connect();
  }

  ~Nccl() override { close(); }

  Device device() const override { return {DeviceType::cuda, index_}; }
  int size() const override { return size_; }
  int rank() const override { return rank_; }

  void follow_device() override {
    const UseDevice use(index_);
    ready_.record(device_stream_);
    ready_.wait_on(stream_);
  }

  void precede_device() override {
    const UseDevice use(index_);
    done_.wait_on(device_stream_);
  }

  void exchange(const std::vector<Piece>& out,
                const std::vector<Piece>& in) override {
    call([&](NcclComm comm) {
      const NcclLibrary& nccl = nccl_library();
      check(nccl.group_start(), "ncclGroupStart");
      NcclResult status = NcclResult::success;
      const auto note = [&status](NcclResult one) {
        if (status == NcclResult::success) status = one;
      };
      for (const Piece& p : out) {
        if (p.bytes == 0) continue;
        note(
            nccl.send(p.data, p.bytes, NcclType::uint8, p.peer, comm, stream_));
      }
      for (const Piece& p : in) {
        if (p.bytes == 0) continue;
        note(nccl.receive(p.data, p.bytes, NcclType::uint8, p.peer, comm,
                          stream_));
      }
      note(nccl.group_end());  // a group must be closed even after an error
      check(status, "ncclSend and ncclRecv");
    });
  }

  void all_gather(void* whole, std::size_t bytes) override {
    call([&](NcclComm comm) {
      const auto* own = static_cast<const unsigned char*>(whole) +
                        static_cast<std::size_t>(rank_) * bytes;
      check(nccl_library().all_gather(own, whole, bytes, NcclType::uint8, comm,
                                      stream_),
            "ncclAllGather");
    });
  }

  void run(const std::function<void()>& work) override {
    const UseDevice use(index_);
    const UseStream there(stream_);
    work();
    done_.record(stream_);
  }

  double busy() override {
    if (calls_under_way_ == 0 && done_.is_done()) return 0.0;
    const Clock::duration since = Clock::now() - called_at_.load();
    return std::max(1e-9, std::chrono::duration<double>(since).count());
  }

  std::string failure() override {
    const std::unique_lock lock(calling_, std::try_to_lock);
    const NcclComm comm = comm_;
    if (!lock.owns_lock() || comm == nullptr) return "";
    NcclResult error = NcclResult::success;
    const NcclResult asked = nccl_library().async_error(comm, &error);
    if (asked != NcclResult::success) error = asked;
    if (error == NcclResult::success || error == NcclResult::in_progress) {
      return "";
    }
    return nccl_library().error_string(error);
  }

  // A call that does not end may wait for a lost rank. NCCL is then aborted all
  // the same, which makes that call return.
  void abort() noexcept override {
    const std::unique_lock lock(calling_, kPatience);
    const NcclComm comm = comm_.exchange(nullptr);
    if (comm != nullptr) static_cast<void>(nccl_library().abort(comm));
  }

  void close() noexcept override {
    const NcclComm comm = comm_.exchange(nullptr);
    if (comm != nullptr) static_cast<void>(nccl_library().destroy(comm));
  }

 private:
  // NCCL connects two ranks at their first exchange, and both must wait for it
  // there. Connecting here does so while the caller expects to wait.
  void connect() {
    const Block block(index_, static_cast<std::size_t>(size_) + 1);
    auto* const byte = static_cast<unsigned char*>(block.block.data);
    std::vector<Piece> out, in;
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      out.push_back({byte + size_, 1, peer});
      in.push_back({byte + peer, 1, peer});
    }
    follow_device();
    exchange(out, in);
    all_gather(byte, 1);
    precede_device();
  }

  template <typename Fn>
  void call(Fn&& fn) {
    const UseDevice use(index_);
    const std::lock_guard lock(calling_);
    const NcclComm comm = comm_;
    EA_CHECK_AS(Error, comm != nullptr, "nccl",
                "the exchange between the ranks was ended: one of them is gone "
                "or has failed");
    called_at_ = Clock::now();
    ++calls_under_way_;
    struct Left {
      std::atomic<int>& count;
      ~Left() { --count; }
    } const left{calls_under_way_};
    fn(comm);
    done_.record(stream_);
  }

  int index_, size_, rank_;
  cudaStream_t device_stream_, stream_ = nullptr;
  Event ready_, done_;
  std::timed_mutex calling_;
  std::atomic<int> calls_under_way_{0};
  std::atomic<Clock::time_point> called_at_{Clock::now()};
  std::atomic<NcclComm> comm_{nullptr};
};

}  // namespace

std::string nccl_report() {
  int v = 0;
  check(nccl_library().get_version(&v), "ncclGetVersion");
  // Up to 2.8 as 2804; later versions as 20904.
  const int major = v < 10000 ? v / 1000 : v / 10000;
  const int minor = v < 10000 ? v / 100 % 10 : v / 100 % 100;
  return format("NCCL {}.{}.{} ({})", major, minor, v % 100,
                nccl_library().path);
}

std::string nccl_id() {
  NcclId id{};
  check(nccl_library().get_id(&id), "ncclGetUniqueId");
  return {id.bytes, sizeof id.bytes};
}

std::unique_ptr<Communicator> make_communicator(int index, int size, int rank,
                                                const std::string& id) {
  NcclId given{};
  EA_CHECK_AS(ConfigError, id.size() == sizeof given.bytes, "nccl",
              "the id has {} bytes, expected the {} of communicator_id()",
              id.size(), sizeof given.bytes);
  std::memcpy(given.bytes, id.data(), sizeof given.bytes);
  return std::make_unique<Nccl>(index, size, rank, given);
}

}  // namespace ea::cuda
