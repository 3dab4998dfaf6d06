// The schemas: what the operators are called, what they take and which promises (tags) they make, once and for all
// dispatch keys. Without them nothing can be registered; every other file says how one dispatch key fulfils them.
#include <torch/library.h>
#include <torchsquare/square.h>

TORCH_LIBRARY(torchsquare, m) {
  // pointwise: jagged nested tensors and DTensor may apply the operator to their parts.
  // pt2_compliant_tag: shapes, strides and aliasing hold under tracing, as opcheck verifies.
  const std::vector<at::Tag> tags{at::Tag::pointwise, at::Tag::pt2_compliant_tag};
  m.def("square(Tensor self) -> Tensor", tags);
  m.def("square_backward(Tensor grad_output, Tensor self) -> Tensor", tags);
}

namespace torchsquare {

at::Tensor square(const at::Tensor& self) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("torchsquare::square", "").typed<decltype(square)>();
  return op.call(self);
}

at::Tensor square_backward(const at::Tensor& grad_output, const at::Tensor& self) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("torchsquare::square_backward", "")
                             .typed<decltype(square_backward)>();
  return op.call(grad_output, self);
}

} // namespace torchsquare
