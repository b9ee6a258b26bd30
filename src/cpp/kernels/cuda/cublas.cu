// Products in cuBLASLt's column-major order, so y^T = op(b)^T op(a)^T.
#include "kernels/cuda/cublas.h"

#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "kernels/cuda/cublas_library.h"
#include "kernels/cuda/scratch.h"
#include "runtime/check.h"

namespace ea::cuda {

namespace {

constexpr std::size_t kWorkspace = std::size_t{32} << 20;
constexpr std::uint32_t kAlignment = 256;  // of the allocator's memory

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail<Error>("matmul", "cuBLASLt: {}: {}", what,
              cublas_lt().status_string(status));
}

int current_device() {
  int device = 0;
  check_cuda(cudaGetDevice(&device), "matmul");
  return device;
}

// A handle belongs to the device that is current at its creation.
cublasLtHandle_t handle() {
  static std::map<int, cublasLtHandle_t> all;
  cublasLtHandle_t& one = all[current_device()];
  if (one == nullptr) check(cublas_lt().create(&one), "cublasLtCreate");
  return one;
}

// Returns a descriptor that `destroy` will destroy.
template <typename T, typename Destroy>
std::shared_ptr<T> owned(T* made, Destroy destroy) {
  return {made, [destroy](T* one) { static_cast<void>(destroy(one)); }};
}

using Layout = std::shared_ptr<cublasLtMatrixLayoutOpaque_t>;

// Describes a row-major matrix with `rows` rows, read as its transpose.
Layout layout_of(cudaDataType_t type, std::int64_t rows, std::int64_t cols,
                 std::int64_t stride, std::int64_t batch,
                 std::int64_t batch_stride) {
  const CublasLt& lt = cublas_lt();
  cublasLtMatrixLayout_t made = nullptr;
  check(lt.layout_create(&made, type, static_cast<std::uint64_t>(cols),
                         static_cast<std::uint64_t>(rows), stride),
        "layout");
  Layout layout = owned(made, lt.layout_destroy);
  const auto count = static_cast<std::int32_t>(batch);
  check(lt.layout_set(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                      sizeof count),
        "batch count");
  check(lt.layout_set(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                      &batch_stride, sizeof batch_stride),
        "batch stride");
  return layout;
}

// Descriptors and algorithm for products of one shape, created once.
struct Plan {
  std::shared_ptr<cublasLtMatmulDescOpaque_t> desc;
  Layout a, b, y;
  cublasLtMatmulAlgo_t algorithm;
};

using Key = std::tuple<int, DType, std::int64_t, std::int64_t, std::int64_t,
                       std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                       std::int64_t, bool, bool, bool, std::uint32_t>;

// The largest power of two, up to kAlignment, that divides all addresses.
std::uint32_t alignment(const MatMulProblem& p) {
  const auto bits = reinterpret_cast<std::uintptr_t>(p.a) |
                    reinterpret_cast<std::uintptr_t>(p.b) |
                    reinterpret_cast<std::uintptr_t>(p.y) |
                    reinterpret_cast<std::uintptr_t>(p.bias) | kAlignment;
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

template <typename T>
void set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
         T value) {
  check(cublas_lt().desc_set(desc, attribute, &value, sizeof value),
        "attribute");
}

Plan make_plan(DType dtype, const MatMulProblem& p) {
  const CublasLt& lt = cublas_lt();
  const cudaDataType_t type = dtype == DType::f32 ? CUDA_R_32F : CUDA_R_16BF;
  Plan plan;
  cublasLtMatmulDesc_t desc = nullptr;
  check(lt.desc_create(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "descriptor");
  plan.desc = owned(desc, lt.desc_destroy);
  set(desc, CUBLASLT_MATMUL_DESC_TRANSA,
      p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(desc, CUBLASLT_MATMUL_DESC_TRANSB,
      p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (p.bias != nullptr) {
    set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type);
    set(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  }
  plan.a = layout_of(type, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k,
                     p.a_stride, p.batch, p.a_batch);
  plan.b = layout_of(type, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n,
                     p.b_stride, p.batch, p.b_batch);
  plan.y = layout_of(type, p.m, p.n, p.n, p.batch, p.m * p.n);

  cublasLtMatmulPreference_t made = nullptr;
  check(lt.preference_create(&made), "preference");
  const auto preference = owned(made, lt.preference_destroy);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute,
                          auto value) {
    check(lt.preference_set(made, attribute, &value, sizeof value),
          "preference");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
  // Partial sums of a split depth must be combined in a fixed order: no scheme
  // that adds them in order of arrival.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  const std::uint32_t aligned = alignment(p);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, aligned);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, aligned);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, aligned);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, aligned);
  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  check(lt.heuristic(handle(), desc, plan.b.get(), plan.a.get(), plan.y.get(),
                     plan.y.get(), made, 1, &best, &found),
        "heuristic");
  EA_CHECK_AS(Error, found == 1, "matmul",
              "cuBLASLt has no algorithm for {} x {} x {}", p.m, p.k, p.n);
  plan.algorithm = best.algo;
  return plan;
}

// Plans are small and a run has a few hundred shapes, so they are all kept.
const Plan& find_plan(DType dtype, const MatMulProblem& p) {
  static std::map<Key, Plan> plans;
  const Key key{current_device(),
                dtype,
                p.batch,
                p.m,
                p.n,
                p.k,
                p.a_stride,
                p.b_stride,
                p.a_batch,
                p.b_batch,
                p.transpose_a,
                p.transpose_b,
                p.bias != nullptr,
                alignment(p)};
  auto at = plans.find(key);
  if (at == plans.end()) at = plans.emplace(key, make_plan(dtype, p)).first;
  if (p.bias != nullptr) {
    set(at->second.desc.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  }
  return at->second;
}

}  // namespace

void lt_product(cudaStream_t stream, DType dtype, const MatMulProblem& p) {
  const Scratch<unsigned char> workspace(stream, kWorkspace);
  const float beta = 0.0f;
  // Guards plans and handles. It also covers the call, because a plan holds the
  // bias pointer of one product at a time; a launch takes some microseconds.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const Plan& plan = find_plan(dtype, p);
  check(cublas_lt().matmul(handle(), plan.desc.get(), &p.alpha, p.b,
                           plan.b.get(), p.a, plan.a.get(), &beta, p.y,
                           plan.y.get(), p.y, plan.y.get(), &plan.algorithm,
                           workspace.data(), kWorkspace, stream),
        "cublasLtMatmul");
}

std::string cublas_report() {
  const std::size_t v = cublas_lt().version();
  return format("{}.{}.{} ({})", v / 10000, v / 100 % 100, v % 100,
                cublas_lt().path);
}

}  // namespace ea::cuda
