// SIMD elementwise activations and their derivatives (kernels/activation.h).
#include "kernels/activation.h"
#include "kernels/cpu/simd/jobs-inl.h"
#include "kernels/cpu/simd/math-inl.h"
#include "kernels/cpu/simd/row_sums-inl.h"
#include "kernels/cpu/simd/run-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

// The sigmoid and its derivative, from e = e^-|x|: neither cancels.
struct Logistic {
  Vf value, derivative;
  explicit EA_INLINE Logistic(Vf x) {
    const Vf e = exp(-abs(x));
    const Vf d = set(1.0f) / (set(1.0f) + e);
    value = x < set(0.0f) ? e * d : d;
    derivative = e * d * d;
  }
};

// Each functor has value(x) = f(x) and derivative(x) = f'(x).
struct Gelu {
  static EA_INLINE Vf value(Vf x, Vf) { return x * normal(x).distribution; }
  static EA_INLINE Vf derivative(Vf x, Vf) {
    const Normal n = normal(x);
    return fma(x, n.density, n.distribution);
  }
};

// (1 + tanh z) / 2 is computed as sigmoid(2 z), which stays accurate for
// negative z.
struct GeluTanh {
  static EA_INLINE Vf twice_inner(Vf x) {  // 2 sqrt(2/pi) (x + 0.044715 x^3)
    return x * fma(x * x, set(0.071354816f), set(1.5957691f));
  }
  static EA_INLINE Vf value(Vf x, Vf) { return x * sigmoid(twice_inner(x)); }
  // s + x s' d(2z)/dx; beyond 40, s' is 0 and d(2z)/dx must not overflow.
  static EA_INLINE Vf derivative(Vf x, Vf) {
    const Vf y = max(set(-40.0f), min(set(40.0f), x));
    const Logistic s(twice_inner(y));
    const Vf slope = fma(y * y, set(0.21406445f), set(1.5957691f));
    return fma(y * s.derivative, slope, s.value);
  }
};

struct Relu {
  static EA_INLINE Vf value(Vf x, Vf) { return max(set(0.0f), x); }
  static EA_INLINE Vf derivative(Vf x, Vf) {  // a NaN lets a gradient pass
    return x <= set(0.0f) ? set(0.0f) : set(1.0f);
  }
};

struct LeakyRelu {
  static EA_INLINE Vf value(Vf x, Vf slope) {
    return x > set(0.0f) ? x : slope * x;
  }
  static EA_INLINE Vf derivative(Vf x, Vf slope) {
    return x > set(0.0f) ? set(1.0f) : slope;
  }
};

struct Tanh {
  static EA_INLINE Vf value(Vf x, Vf) { return tanh(x); }
  static EA_INLINE Vf derivative(Vf x, Vf) {
    const Vf t = tanh(x);
    return fnma(t, t, set(1.0f));
  }
};

struct Sigmoid {
  static EA_INLINE Vf value(Vf x, Vf) { return sigmoid(x); }
  static EA_INLINE Vf derivative(Vf x, Vf) { return Logistic(x).derivative; }
};

struct Exp {
  static EA_INLINE Vf value(Vf x, Vf) { return exp(x); }
  static EA_INLINE Vf derivative(Vf x, Vf) { return exp(x); }
};

struct Log {
  static EA_INLINE Vf value(Vf x, Vf) { return log(x); }
  static EA_INLINE Vf derivative(Vf x, Vf) { return set(1.0f) / x; }
};

struct Sqrt {
  static EA_INLINE Vf value(Vf x, Vf) { return sqrt(x); }
  static EA_INLINE Vf derivative(Vf x, Vf) { return set(0.5f) / sqrt(x); }
};

struct Elu {
  static EA_INLINE Vf value(Vf x, Vf) {
    return x > set(0.0f) ? x : expm1(min(set(0.0f), x));
  }
  static EA_INLINE Vf derivative(Vf x, Vf) {
    return x > set(0.0f) ? set(1.0f) : exp(min(set(0.0f), x));
  }
};

template <typename F, typename T>
void compute(const ActivationForward::Args& args) {
  const Vf slope = set(static_cast<float>(args.slope));
  const T* x = args.x.as<T>();
  T* y = args.y.as<T>();
  parallel_chunks(args.y.numel(), kGrain,
                  [&](std::int64_t begin, std::int64_t end) {
                    for_vectors(end - begin, [&](std::int64_t i, auto part) {
                      store(y + begin + i,
                            F::value(load(x + begin + i, part), slope), part);
                    });
                  });
}

// Computes dx in blocks of rows and reduces each block to its part of dbias
// while it is in cache.
template <typename F, typename T>
void run_with_bias(const ActivationBackward::Args& args) {
  const Vf slope = set(static_cast<float>(args.slope));
  const std::int64_t width = args.x.shape[1];
  const Blocks blocks(args.x.shape[0], width);
  const Scratch scratch(blocks.count * width * 4);
  float* partial = scratch.as<float>();
  parallel_for(blocks.count, [&](std::int64_t b) {
    const std::int64_t n = blocks.rows_of(b), at = b * blocks.size * width;
    const T* dy = args.dy.as<T>() + at;
    const T* x = args.x.as<T>() + at;
    T* dx = args.dx.as<T>() + at;
    for_vectors(n * width, [&](std::int64_t i, auto part) {
      const Vf d = F::derivative(load(x + i, part), slope);
      store(dx + i, load(dy + i, part) * d, part);
    });
    float* sum = partial + b * width;
    __builtin_memset(sum, 0, static_cast<std::size_t>(width) * 4);
    add_rows(dx, n, width, sum);
  });
  combine_rows(partial, args.dbias.as<T>(), 1, blocks.count, width);
}

template <typename F, typename T>
void compute(const ActivationBackward::Args& args) {
  if (args.dbias.defined()) return run_with_bias<F, T>(args);
  const Vf slope = set(static_cast<float>(args.slope));
  const T* dy = args.dy.as<T>();
  const T* x = args.x.as<T>();
  T* dx = args.dx.as<T>();
  parallel_chunks(
      args.dx.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
        for_vectors(end - begin, [&](std::int64_t i, auto part) {
          const Vf d = F::derivative(load(x + begin + i, part), slope);
          store(dx + begin + i, load(dy + begin + i, part) * d, part);
        });
      });
}

template <typename T, typename Args>
void dispatch(const Args& args) {
  switch (args.kind) {
    case Activation::gelu:
      return compute<Gelu, T>(args);
    case Activation::gelu_tanh:
      return compute<GeluTanh, T>(args);
    case Activation::relu:
      return compute<Relu, T>(args);
    case Activation::leaky_relu:
      return compute<LeakyRelu, T>(args);
    case Activation::tanh:
      return compute<Tanh, T>(args);
    case Activation::sigmoid:
      return compute<Sigmoid, T>(args);
    case Activation::exp:
      return compute<Exp, T>(args);
    case Activation::log:
      return compute<Log, T>(args);
    case Activation::sqrt:
      return compute<Sqrt, T>(args);
    case Activation::elu:
      return compute<Elu, T>(args);
  }
}

}  // namespace

EA_RUN(ActivationForward, dispatch, x)
EA_RUN(ActivationBackward, dispatch, x)

}  // namespace ea::simd::EA_TARGET
