// How an elementwise operator runs on the GPU, whatever it computes: the kernels for dense and for strided operands.
// The operator is a type `Op` with the number of its inputs, `arity`, and a device function `apply(in)` for one
// element. It hardly computes, so all that counts is that enough bytes are in flight. One 16-byte vector a thread runs
// at the speed of a copy; more vectors, larger or persistent blocks and cache hints were measured and are no faster.
#pragma once

#include <ATen/ceil_div.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <ATen/cuda/detail/OffsetCalculator.cuh>

#include "cuda_kernels.h"

namespace torchsquare {
namespace {

constexpr int kThreads = 128;

// The dtype of a result: that of the inputs, but int64 for bool, as torch.square has it.
template <typename T>
using result_t = std::conditional_t<std::is_same_v<T, bool>, int64_t, T>;

template <typename T, int N>
struct alignas(N * sizeof(T)) Vector {
  T values[N];
};

// How a thread reads its N elements of an operand: as one vector; one by one, where the data is not aligned for that (a
// view may start anywhere); or as one for all, where the stride is 0 (the gradient that y.sum().backward() sends).
enum class Access { vector, scalar, broadcast };

template <typename T, int arity>
struct DenseInputs {
  const T* data[arity];
  Access access[arity];
};

template <bool all_vectors, typename Op, int N, typename T>
__device__ void compute(result_t<T>* out, const DenseInputs<T, Op::arity>& in, int64_t start, int64_t numel) {
  const bool is_whole = all_vectors || start + N <= numel;
  Vector<T, N> operands[Op::arity];
  for (int arg = 0; arg < Op::arity; ++arg) {
    const T* data = in.data[arg];
    if (all_vectors || (is_whole && in.access[arg] == Access::vector)) {
      operands[arg] = *reinterpret_cast<const Vector<T, N>*>(data + start);
    } else {
      const T first = *data;
      for (int i = 0; i < N; ++i) {
        operands[arg].values[i] = in.access[arg] == Access::broadcast ? first : data[min(start + i, numel - 1)];
      }
    }
  }
  Vector<result_t<T>, N> result;
  for (int i = 0; i < N; ++i) {
    T args[Op::arity];
    for (int arg = 0; arg < Op::arity; ++arg) args[arg] = operands[arg].values[i];
    result.values[i] = Op::apply(args);
  }
  if (is_whole) *reinterpret_cast<Vector<result_t<T>, N>*>(out + start) = result;
  for (int i = 0; i < N; ++i) {
    if (!is_whole && start + i < numel) out[start + i] = result.values[i];
  }
}

// Dense operands: a thread computes N consecutive elements and stores them as one vector, except at the tail. Where all
// are vectors, its code is a straight line: with the other accesses in it, small tensors took 2 to 3 % longer.
template <bool all_vectors, typename Op, int N, typename T>
__global__ __launch_bounds__(kThreads) void dense_kernel(
    result_t<T>* out, const DenseInputs<T, Op::arity> in, int64_t numel) {
  const int64_t block = static_cast<int64_t>(blockIdx.x) * (kThreads * N);
  const int64_t start = block + threadIdx.x * N;
  if (!all_vectors || block + kThreads * N > numel) return compute<false, Op, N>(out, in, start, numel);
  compute<true, Op, N>(out, in, start, numel);
}

// Any strides: a block computes kThreads * N consecutive elements, and a thread every kThreads-th of them, so that
// neighbouring threads read neighbouring elements. operands[0] is the output. All N loads come before the first store.
template <typename Op, int N, typename T>
__global__ __launch_bounds__(kThreads) void strided_kernel(
    std::array<char*, Op::arity + 1> operands, OffsetCalculator<Op::arity + 1> offset_calculator, uint32_t numel) {
  const uint32_t start = blockIdx.x * (kThreads * N) + threadIdx.x;
  T args[N][Op::arity];
  uint32_t out_offsets[N];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (start + i * kThreads < numel) {
      const auto offsets = offset_calculator.get(start + i * kThreads);
      out_offsets[i] = offsets[0];
      for (int arg = 0; arg < Op::arity; ++arg) {
        args[i][arg] = *reinterpret_cast<const T*>(operands[arg + 1] + offsets[arg + 1]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < N; ++i) {
    auto* out = reinterpret_cast<result_t<T>*>(operands[0] + out_offsets[i]);
    if (start + i * kThreads < numel) *out = Op::apply(args[i]);
  }
}

// The order of the elements is free. Where an input is dense along another dimension than the output (a gradient that
// is laid out unlike the input), consecutive indices run over a tile of both dimensions, so that a warp reads whole
// sectors of each operand: a third of the time.
template <int NARGS>
OffsetCalculator<NARGS> make_tiled_offset_calculator(const at::TensorIteratorBase& iter) {
  constexpr int64_t kTile[] = {8, 16};
  int other = 1; // the first dimension along which an input is dense
  const auto is_dense = [&](int arg) { return iter.strides(arg)[other] == iter.element_size(arg); };
  while (other < iter.ndim() && !is_dense(1) && !is_dense(NARGS - 1)) ++other;
  at::DimVector sizes(iter.shape());
  if (other >= iter.ndim() || iter.ndim() + 2 > MAX_DIMS || sizes[0] % kTile[0] || sizes[other] % kTile[1]) {
    return make_offset_calculator<NARGS>(iter);
  }
  sizes[0] /= kTile[0];
  sizes[other] /= kTile[1];
  sizes.insert(sizes.begin(), kTile, kTile + 2);
  std::array<at::DimVector, NARGS> strides;
  std::array<const int64_t*, NARGS> pointers;
  for (int arg = 0; arg < NARGS; ++arg) {
    const auto of_arg = iter.strides(arg);
    strides[arg] = {of_arg[0], of_arg[other]};
    strides[arg].append(of_arg.begin(), of_arg.end());
    strides[arg][2] *= kTile[0];
    strides[arg][2 + other] *= kTile[1];
    pointers[arg] = strides[arg].data();
  }
  return OffsetCalculator<NARGS>(sizes.size(), sizes.data(), pointers.data());
}

template <typename Op, typename T>
void launch_strided(const at::TensorIteratorBase& iter) {
  constexpr int N = sizeof(T) <= 2 ? 8 : 4;
  std::array<char*, Op::arity + 1> operands;
  for (int arg = 0; arg <= Op::arity; ++arg) operands[arg] = static_cast<char*>(iter.data_ptr(arg));
  const auto blocks = at::ceil_div<int64_t>(iter.numel(), kThreads * N);
  strided_kernel<Op, N, T><<<blocks, kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
      operands, make_tiled_offset_calculator<Op::arity + 1>(iter), iter.numel());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <typename Op, typename T>
void launch_dense(const Operands& operands) {
  constexpr int N = 16 / sizeof(result_t<T>); // result_t is at least as large as T
  DenseInputs<T, Op::arity> in;
  bool all_vectors = true;
  for (int arg = 0; arg < Op::arity; ++arg) {
    in.data[arg] = static_cast<const T*>(operands.inputs[arg]);
    const bool is_aligned = reinterpret_cast<uintptr_t>(in.data[arg]) % (N * sizeof(T)) == 0;
    in.access[arg] = operands.is_scalar[arg] ? Access::broadcast : is_aligned ? Access::vector : Access::scalar;
    all_vectors &= in.access[arg] == Access::vector;
  }
  const auto kernel = all_vectors ? dense_kernel<true, Op, N, T> : dense_kernel<false, Op, N, T>;
  const auto blocks = at::ceil_div<int64_t>(operands.numel, kThreads * N);
  kernel<<<blocks, kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
      static_cast<result_t<T>*>(operands.out), in, operands.numel);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <typename Op, typename T>
void launch(const Operands& operands) {
  if (operands.numel == 0) return;
  if (operands.iter == nullptr) return launch_dense<Op, T>(operands);
  if (operands.iter->can_use_32bit_indexing()) return launch_strided<Op, T>(*operands.iter);
  for (const auto& part : operands.iter->with_32bit_indexing()) launch_strided<Op, T>(part);
}

} // namespace
} // namespace torchsquare
