// What the two operators compute for one element, and the dispatch on its dtype. Where and how: elementwise.cuh.
#include <ATen/Dispatch_v2.h>
#include <ATen/OpMathType.h>
#include <c10/util/Load.h>

#include "elementwise.cuh"

namespace torchsquare {
namespace {

// Low precision is computed in float and rounded once. Integers are computed unsigned: they wrap, where signed overflow
// would be undefined.
template <typename T>
using compute_t = std::conditional_t<
    std::is_integral_v<T>, std::conditional_t<sizeof(T) <= 4, uint32_t, uint64_t>, at::opmath_type<T>>;

struct Square {
  static constexpr char name[] = "torchsquare::square";
  static constexpr int arity = 1;

  template <typename T>
  static __device__ result_t<T> apply(const T (&in)[arity]) {
    const auto self = static_cast<compute_t<T>>(c10::load(&in[0]));
    return static_cast<result_t<T>>(self * self);
  }
};

struct SquareBackward {
  static constexpr char name[] = "torchsquare::square_backward";
  static constexpr int arity = 2;

  template <typename T>
  static __device__ result_t<T> apply(const T (&in)[arity]) {
    const auto grad_output = static_cast<compute_t<T>>(c10::load(&in[0]));
    auto self = static_cast<compute_t<T>>(c10::load(&in[1]));
    if constexpr (c10::is_complex<T>::value) self = std::conj(self);
    const auto product = grad_output * self;
    return static_cast<result_t<T>>(product + product); // doubled last: 2x may overflow where 2·(g·x) does not
  }
};

template <typename Op>
void dispatch(at::ScalarType dtype, const Operands& operands) {
  AT_DISPATCH_V2(
      dtype, Op::name, AT_WRAP([&] { launch<Op, scalar_t>(operands); }), AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), at::kBool,
      at::kHalf, at::kBFloat16, at::kComplexHalf);
}

} // namespace

void launch_square(at::ScalarType dtype, const Operands& operands) {
  dispatch<Square>(dtype, operands);
}

void launch_square_backward(at::ScalarType dtype, const Operands& operands) {
  dispatch<SquareBackward>(dtype, operands);
}

} // namespace torchsquare
