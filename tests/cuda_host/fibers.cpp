// Runs the blocks of a grid one after another and the threads of a block as
// fibers: each runs until it waits for others, and is then suspended.
#include <sys/mman.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "emulation.h"
#include "fault.h"
#include "kernels/cuda/shared_limits.h"
#include "memory.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

#if !defined(__x86_64__)
#error "the host emulation switches fibers in x86-64 code"
#endif

// ea_switch(&mine, other): pushes the registers that a call must preserve,
// stores this stack's pointer in `mine` and resumes the stack `other`.
extern "C" void ea_switch(void** mine, void* other);
asm(R"(
.text
.globl ea_switch
.hidden ea_switch
.type ea_switch, @function
ea_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size ea_switch, .-ea_switch
)");

namespace ea::emulation {

namespace {

constexpr int kWarp = 32;
constexpr int kMostThreads = 1024;
constexpr std::size_t kStack = 64 * 1024;  // including a guard page
constexpr std::size_t kPage = 4096;

enum class State { ready, in_exchange, at_barrier, left };

struct Fiber {
  void* stack_pointer = nullptr;
  State state = State::left;
  unsigned mask = 0;      // of the exchange it waits in
  std::size_t bytes = 0;  // size of its deposit
  uint3 index{};
};

struct StaticArray {
  const void* key;
  Buffer* buffer;
};

// `shown` is a copy of the deposits, made when the exchange completes: a lane
// may deposit again before a slower lane has read the last exchange.
struct Warp {
  Deposit put[kWarp], shown[kWarp];
};

struct Block {
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  std::vector<StaticArray> statics;
  Buffer* dynamic = nullptr;
  std::size_t shared_bytes = 0;
  Fiber* running = nullptr;
  int lane = 0;               // of the running fiber
  void* scheduler = nullptr;  // stack pointer
  void (*thread)(void*) = nullptr;
  void* context = nullptr;
  const char* refusal = nullptr;
};

Block block;
bool in_kernel = false;
std::uint64_t exchanges = 0;  // completed so far

unsigned char* stacks() {
  static unsigned char* const all = [] {
    void* p = mmap(nullptr, kStack * kMostThreads, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw KernelFault("[cuda_host] no room for stacks");
    for (int i = 0; i < kMostThreads; ++i) {
      mprotect(static_cast<unsigned char*>(p) + i * kStack, kPage, PROT_NONE);
    }
    return static_cast<unsigned char*>(p);
  }();
  return all;
}

void to_scheduler() {
  ea_switch(&block.running->stack_pointer, block.scheduler);
}

[[noreturn]] void fiber_main() {
  block.thread(block.context);
  block.running->state = State::left;
  to_scheduler();
  std::abort();  // a fiber that left is not resumed
}

// A new stack looks as if ea_switch had suspended it just before fiber_main:
// six registers, the address of fiber_main, and a word for the ABI's alignment.
void prepare(Fiber& fiber, std::size_t number) {
  auto** top = reinterpret_cast<void**>(stacks() + (number + 1) * kStack);
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(&fiber_main);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  fiber.stack_pointer = top;
  fiber.state = State::ready;
  const auto n = static_cast<unsigned>(number);
  fiber.index = {n % blockDim.x, n / blockDim.x % blockDim.y,
                 n / blockDim.x / blockDim.y};
}

[[noreturn]] void fault(const std::string& why) {
  const std::string at = place();
  in_kernel = false;
  throw KernelFault(at + why);
}

void resume(Fiber& fiber) {
  block.running = &fiber;
  block.lane = static_cast<int>(&fiber - block.fibers.data()) % kWarp;
  threadIdx = fiber.index;
  ea_switch(&block.scheduler, fiber.stack_pointer);
  if (block.refusal != nullptr) {
    const char* why = block.refusal;
    block.refusal = nullptr;
    fault(why);
  }
}

bool falling() {
  const Arena* arena = Arena::current();
  return arena != nullptr && arena->order() == Order::backward;
}

// Completes the exchange of a whole warp, the usual case. Returns whether it
// was one.
bool release_all(Fiber* lanes, Warp& warp) {
  for (int i = 0; i < kWarp; ++i) {
    if (lanes[i].state != State::in_exchange || lanes[i].mask != 0xffffffffu ||
        lanes[i].bytes != lanes[0].bytes)
      return false;
  }
  for (int i = 0; i < kWarp; ++i) lanes[i].state = State::ready;
  if (lanes[0].bytes > 0) std::memcpy(warp.shown, warp.put, sizeof warp.shown);
  ++exchanges;
  return true;
}

// Called when every lane waits or has returned. Releases the lanes whose
// exchange is complete; returns whether there are any. Faults if a lane waits
// for one that has returned or is at a barrier: it would wait forever.
bool release_exchanges(Fiber* lanes, Warp& warp) {
  if (release_all(lanes, warp)) return true;
  bool any = false;
  for (int i = 0; i < kWarp; ++i) {
    if (lanes[i].state != State::in_exchange) continue;
    for (int j = 0; j < kWarp; ++j) {
      if ((lanes[i].mask >> j & 1u) == 0) continue;
      if (lanes[j].state == State::in_exchange &&
          lanes[j].mask == lanes[i].mask && lanes[j].bytes == lanes[i].bytes)
        continue;
      threadIdx = lanes[i].index;
      fault("divergent shuffle: it waits for lane " + std::to_string(j) +
            (lanes[j].state == State::left ? ", which has returned"
             : lanes[j].state == State::at_barrier
                 ? ", which is at a barrier"
                 : ", which exchanges something else"));
    }
    any = true;
  }
  for (int i = 0; i < kWarp; ++i) {
    if (lanes[i].state != State::in_exchange) continue;
    lanes[i].state = State::ready;
    warp.shown[i] = warp.put[i];
  }
  ++exchanges;
  return any;
}

void run_warp(std::size_t number) {
  Fiber* lanes = &block.fibers[number * kWarp];
  const bool down = falling();
  do {
    for (int i = 0; i < kWarp; ++i) {
      Fiber& lane = lanes[down ? kWarp - 1 - i : i];
      if (lane.state == State::ready) resume(lane);
    }
  } while (release_exchanges(lanes, block.warps[number]));
}

// Runs until all threads have returned. Either all threads reach a barrier or
// none does.
void run_block() {
  const std::size_t warps = block.warps.size();
  for (;;) {
    for (std::size_t w = 0; w < warps; ++w) {
      run_warp(falling() ? warps - 1 - w : w);
    }
    std::size_t left = 0;
    const Fiber* waiting = nullptr;
    for (const Fiber& fiber : block.fibers) {
      if (fiber.state == State::left)
        ++left;
      else
        waiting = &fiber;
    }
    if (waiting == nullptr) return;
    if (left > 0) {
      threadIdx = waiting->index;
      fault("waits at a barrier for " + std::to_string(left) +
            " threads of its block that have returned");
    }
    for (Fiber& fiber : block.fibers) fiber.state = State::ready;
  }
}

void start_block() {
  for (std::size_t i = 0; i < block.fibers.size(); ++i) {
    prepare(block.fibers[i], i);
  }
  if (block.dynamic != nullptr) block.dynamic->poison();
  for (const StaticArray& one : block.statics) one.buffer->poison();
}

void check_shape(dim3 grid, dim3 shape, std::size_t shared) {
  const std::uint64_t threads = std::uint64_t{shape.x} * shape.y * shape.z;
  if (threads == 0 || threads > kMostThreads || threads % kWarp != 0) {
    throw KernelFault("[cuda_host] a block of " + std::to_string(threads) +
                      " threads: expected 32 to 1024, in whole warps");
  }
  if (grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) {
    throw KernelFault("[cuda_host] the grid is larger than a GPU takes");
  }
  if (const std::size_t most = cuda::shared_limits().block; shared > most) {
    throw KernelFault("[cuda_host] " + std::to_string(shared) +
                      " bytes of shared memory; a block has " +
                      std::to_string(most));
  }
}

}  // namespace

std::string place() {
  if (!in_kernel) return "";
  const auto text = [](const uint3& i) {
    return "(" + std::to_string(i.x) + ", " + std::to_string(i.y) + ", " +
           std::to_string(i.z) + ")";
  };
  return "block " + text(blockIdx) + ", thread " + text(threadIdx) + ": ";
}

void abandon_kernel() { in_kernel = false; }

int lane() { return block.lane; }

void refuse(const char* why) {
  block.refusal = why;
  to_scheduler();
  std::abort();  // the block is abandoned
}

const Deposit* exchange(unsigned mask, const void* mine, std::size_t bytes) {
  Fiber& fiber = *block.running;
  const int me = lane();
  if ((mask >> me & 1u) == 0) refuse("a lane is missing from its own mask");
  const auto number = static_cast<std::size_t>(&fiber - block.fibers.data());
  Warp& warp = block.warps[number / kWarp];
  if (bytes > 0) std::memcpy(warp.put[me].bytes, mine, bytes);
  fiber.mask = mask;
  fiber.bytes = bytes;
  fiber.state = State::in_exchange;
  to_scheduler();
  return warp.shown;
}

std::uint64_t exchange_number() { return exchanges; }

void wait_for_block() {
  block.running->state = State::at_barrier;
  to_scheduler();
}

void* static_shared(const void* key, std::size_t bytes) {
  for (const StaticArray& one : block.statics) {
    if (one.key == key) return one.buffer->data();
  }
  block.shared_bytes += bytes;
  if (block.shared_bytes > cuda::shared_limits().block) {
    refuse("too much shared memory");
  }
  Buffer& made = Arena::current()->add("shared memory", bytes, Access::write);
  made.allow_all();
  block.statics.push_back({key, &made});
  return made.data();
}

void* dynamic_shared() {
  if (block.dynamic == nullptr)
    refuse("launched without dynamic shared memory");
  return block.dynamic->data();
}

void run_grid(dim3 grid, dim3 shape, std::size_t shared, void (*thread)(void*),
              void* context) {
  check_shape(grid, shape, shared);
  Arena* arena = Arena::current();
  if (arena == nullptr) throw KernelFault("[cuda_host] no arena");
  gridDim = grid;
  blockDim = shape;
  block = Block{};
  block.fibers.resize(std::size_t{shape.x} * shape.y * shape.z);
  block.warps.resize(block.fibers.size() / kWarp);
  block.thread = thread;
  block.context = context;
  block.shared_bytes = shared;
  if (shared > 0) {
    block.dynamic = &arena->add("dynamic shared memory", shared, Access::write);
  }
  arena->for_kernel();
  in_kernel = true;
  const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const std::uint64_t n = falling() ? blocks - 1 - i : i;
    blockIdx = {static_cast<unsigned>(n % grid.x),
                static_cast<unsigned>(n / grid.x % grid.y),
                static_cast<unsigned>(n / grid.x / grid.y)};
    start_block();
    run_block();
  }
  in_kernel = false;
  if (block.dynamic != nullptr) arena->free(block.dynamic->data());
  for (const StaticArray& one : block.statics) arena->free(one.buffer->data());
  arena->for_host();
}

}  // namespace ea::emulation

unsigned __ballot_sync(unsigned mask, int predicate) {
  const int mine = predicate != 0 ? 1 : 0;
  const ea::emulation::Deposit* all =
      ea::emulation::exchange(mask, &mine, sizeof mine);
  unsigned votes = 0;
  for (int i = 0; i < 32; ++i) {
    int one = 0;
    if ((mask >> i & 1u) != 0) std::memcpy(&one, all[i].bytes, sizeof one);
    votes |= static_cast<unsigned>(one) << i;
  }
  return votes;
}
