// A stand-in for NCCL under its C names: connects emulated devices of processes
// on one machine through Unix sockets. Received data is written as late as the
// stream allows; sent data must not change before the stream has passed the
// send. As with NCCL, a call that waits for a lost rank waits until
// ncclCommAbort.
//
// EA_EMULATED_NCCL selects a failure: init, send, or async (reported by
// ncclCommGetAsyncError after the first send).
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "stream.h"

namespace {

using Bytes = std::vector<unsigned char>;
using Stream = CUstream_st*;
enum Result { kSuccess = 0, kSystem = 2, kInternal = 3, kRemote = 6 };
struct Id {
  char bytes[128];
};

constexpr auto kPause = std::chrono::milliseconds(5);

bool amiss(const char* what) {
  const char* const value = std::getenv("EA_EMULATED_NCCL");
  return value != nullptr && std::strcmp(value, what) == 0;
}

[[noreturn]] void stop(const char* why) {
  std::fprintf(stderr, "stand-in for NCCL: %s\n", why);
  std::abort();
}

// Returns an address that needs no file: its name starts with a zero byte.
std::pair<sockaddr_un, socklen_t> address(const Id& id, int rank) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  const std::string name = std::string(id.bytes) + "-" + std::to_string(rank);
  std::memcpy(at.sun_path + 1, name.c_str(), name.size());
  return {at, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                     name.size())};
}

bool write_all(int to, const void* data, std::size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::send(to, at, bytes, MSG_NOSIGNAL);
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

bool read_all(int from, void* data, std::size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::recv(from, at, bytes, 0);
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

// One rank's end: a socket to each other rank, and the messages received.
struct Ranks {
  Ranks(int count, int own) : size(count), rank(own), peers(count, -1) {
    inbox.resize(static_cast<std::size_t>(count));
  }
  ~Ranks() {
    ended = true;
    if (reader.joinable()) reader.join();
    for (const int one : peers) {
      if (one >= 0) ::close(one);
    }
  }

  bool meet(const Id& id) {
    const int door = ::socket(AF_UNIX, SOCK_STREAM, 0);
    const auto [here, length] = address(id, rank);
    if (::bind(door, reinterpret_cast<const sockaddr*>(&here), length) != 0 ||
        ::listen(door, size) != 0) {
      return false;
    }
    for (int other = 0; other < rank; ++other) {
      const auto [there, bytes] = address(id, other);
      const int made = ::socket(AF_UNIX, SOCK_STREAM, 0);
      while (::connect(made, reinterpret_cast<const sockaddr*>(&there),
                       bytes) != 0) {
        std::this_thread::sleep_for(kPause);
      }
      if (!write_all(made, &rank, sizeof rank)) return false;
      peers[static_cast<std::size_t>(other)] = made;
    }
    for (int count = rank + 1; count < size; ++count) {
      const int made = ::accept(door, nullptr, nullptr);
      int who = 0;
      if (!read_all(made, &who, sizeof who)) return false;
      peers[static_cast<std::size_t>(who)] = made;
    }
    ::close(door);
    reader = std::thread([this] { read(); });
    return true;
  }

  // Reads everything that arrives, so that no other rank's write waits for us.
  void read() {
    std::vector<bool> open(peers.size(), true);
    while (!ended) {
      std::vector<pollfd> waiting;
      std::vector<std::size_t> who;
      for (std::size_t i = 0; i < peers.size(); ++i) {
        if (peers[i] < 0 || !open[i]) continue;
        waiting.push_back({peers[i], POLLIN, 0});
        who.push_back(i);
      }
      ::poll(waiting.data(), waiting.size(), 5);
      for (std::size_t i = 0; i < waiting.size(); ++i) {
        if (waiting[i].revents == 0) continue;
        std::uint64_t length = 0;
        open[who[i]] = read_all(waiting[i].fd, &length, sizeof length);
        Bytes message(length);
        if (!open[who[i]] ||
            !(open[who[i]] =
                  read_all(waiting[i].fd, message.data(), message.size()))) {
          continue;
        }
        const std::lock_guard lock(mutex);
        inbox[who[i]].push_back(std::move(message));
        changed.notify_all();
      }
    }
  }

  bool has(int peer) {
    const std::lock_guard lock(mutex);
    return aborted || !inbox[static_cast<std::size_t>(peer)].empty();
  }

  // Returns the next message of a rank; nothing after an abort.
  Bytes take(int peer, std::size_t bytes) {
    std::unique_lock lock(mutex);
    auto& from = inbox[static_cast<std::size_t>(peer)];
    changed.wait(lock, [&] { return aborted || !from.empty(); });
    if (aborted) return {};
    Bytes message = std::move(from.front());
    from.pop_front();
    if (message.size() != bytes) stop("two ranks differ in what they exchange");
    return message;
  }

  int size, rank;
  std::vector<int> peers;
  std::vector<std::deque<Bytes>> inbox;
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<bool> aborted{false}, ended{false}, used{false};
  std::thread reader;
};

struct ncclComm {
  std::shared_ptr<Ranks> ranks;
};

namespace {

using Comm = ncclComm*;

struct Operation {
  bool sends;
  void* data;
  std::size_t bytes;
  int peer;
  std::shared_ptr<Ranks> ranks;
  Stream stream;
};

thread_local std::vector<Operation> group;
thread_local int depth = 0;

void start(const Operation& op) {
  const auto [sends, data, bytes, peer, ranks, stream] = op;
  if (!sends) {
    stream->later(
        [=] {
          const Bytes got = ranks->take(peer, bytes);
          stream->copy(data, got.data(), got.size());
        },
        [=] { return ranks->has(peer); });
    return;
  }
  Bytes sent(bytes);
  stream->copy(sent.data(), data, bytes);
  const std::uint64_t length = bytes;
  const int to = ranks->peers[static_cast<std::size_t>(peer)];
  ranks->used = true;
  if (write_all(to, &length, sizeof length)) {
    static_cast<void>(write_all(to, sent.data(), bytes));
  }
  stream->later(
      [=] {
        Bytes now(bytes);
        stream->copy(now.data(), data, bytes);
        if (now != sent) stop("what is sent was changed on the way");
      },
      {});
}

// Sends read the results of earlier work; receives write after it.
int start_all(std::vector<Operation> operations) {
  if (amiss("send") && operations.size() > 0 &&
      operations[0].ranks->used.exchange(true)) {
    return kInternal;
  }
  for (const Operation& op : operations) op.stream->finish();
  for (const Operation& op : operations) {
    if (op.sends) start(op);
  }
  for (const Operation& op : operations) {
    if (!op.sends) start(op);
  }
  return kSuccess;
}

int add(std::vector<Operation> operations) {
  if (depth == 0) return start_all(std::move(operations));
  for (Operation& op : operations) group.push_back(std::move(op));
  return kSuccess;
}

}  // namespace

extern "C" {

int ncclGetVersion(int* version) {
  *version = 22707;
  return kSuccess;
}

const char* ncclGetErrorString(int result) {
  return result == kSystem   ? "unhandled system error"
         : result == kRemote ? "remote process exited or there was a network "
                               "error"
                             : "internal error";
}

int ncclGetUniqueId(Id* id) {
  std::random_device random;
  const std::string name =
      "ea-nccl-" + std::to_string(random()) + "-" + std::to_string(::getpid());
  *id = {};
  std::memcpy(id->bytes, name.c_str(), name.size());
  return kSuccess;
}

int ncclCommInitRank(Comm* comm, int size, Id id, int rank) {
  if (amiss("init")) return kSystem;
  auto ranks = std::make_shared<Ranks>(size, rank);
  if (!ranks->meet(id)) return kSystem;
  *comm = new ncclComm{ranks};
  return kSuccess;
}

int ncclCommAbort(Comm comm) {
  {
    const std::lock_guard lock(comm->ranks->mutex);
    comm->ranks->aborted = true;
    comm->ranks->changed.notify_all();
  }
  delete comm;
  return kSuccess;
}

int ncclCommDestroy(Comm comm) {
  delete comm;
  return kSuccess;
}

int ncclCommGetAsyncError(Comm comm, int* error) {
  *error = amiss("async") && comm->ranks->used ? kRemote : kSuccess;
  return kSuccess;
}

int ncclGroupStart() {
  ++depth;
  return kSuccess;
}

int ncclGroupEnd() {
  return --depth > 0 ? kSuccess : start_all(std::exchange(group, {}));
}

int ncclSend(const void* data, std::size_t count, int, int peer, Comm comm,
             Stream stream) {
  return add(
      {{true, const_cast<void*>(data), count, peer, comm->ranks, stream}});
}

int ncclRecv(void* data, std::size_t count, int, int peer, Comm comm,
             Stream stream) {
  return add({{false, data, count, peer, comm->ranks, stream}});
}

int ncclAllGather(const void* from, void* to, std::size_t count, int, Comm comm,
                  Stream stream) {
  auto* const whole = static_cast<unsigned char*>(to);
  const int own = comm->ranks->rank;
  if (from != whole + static_cast<std::size_t>(own) * count) {
    stop("only the gathering in place is here");
  }
  std::vector<Operation> all;
  for (int peer = 0; peer < comm->ranks->size; ++peer) {
    if (peer == own) continue;
    all.push_back(
        {true, const_cast<void*>(from), count, peer, comm->ranks, stream});
    all.push_back({false, whole + static_cast<std::size_t>(peer) * count, count,
                   peer, comm->ranks, stream});
  }
  return add(std::move(all));
}

}  // extern "C"
