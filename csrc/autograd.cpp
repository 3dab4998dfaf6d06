// Autograd: one torch::autograd::Function for each operator, which calls on below this key and records the backward.
// Without this key backward() would stop at the operators, silently: their results would require no gradient.
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>
#include <torchsquare/square.h>

#include "common.h"

namespace torchsquare {
namespace {

using namespace torch::autograd;

// A C++ Function knows neither forward-mode AD nor torch.func: its apply() throws under both. There the composite takes
// over, since ATen's operators know them.
template <typename... Tensors>
bool needs_composite(const Tensors&... inputs) {
  return (isFwGradDefined(inputs) || ...) ||
         c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerBackMode);
}

struct SquareFunction : Function<SquareFunction> {
  static constexpr bool is_traceable = true; // nothing but tensors in ctx: compiled autograd may trace the backward

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& self) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({self});
    return torchsquare::square(self);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grad_outputs) {
    if (!grad_outputs[0].defined()) return {at::Tensor()};
    return {square_backward(grad_outputs[0], ctx->get_saved_variables()[0])};
  }
};

// For R = 2·G·conj(X) and the gradient V of R: grad_G = V·2X and grad_X = 2G·conj(V). Both are square_backward again,
// which makes the operators differentiable to any order.
struct SquareBackwardFunction : Function<SquareBackwardFunction> {
  static constexpr bool is_traceable = true;

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& grad_output, const at::Tensor& self) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({grad_output, self});
    return square_backward(grad_output, self);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    variable_list result(2);
    if (!grads[0].defined()) return result;
    const auto saved = ctx->get_saved_variables();
    if (ctx->needs_input_grad(0)) result[0] = square_backward(grads[0], saved[1].conj());
    if (ctx->needs_input_grad(1)) result[1] = square_backward(saved[0], grads[0]);
    return result;
  }
};

at::Tensor square_autograd(const at::Tensor& self) {
  if (needs_composite(self)) return composite::square(self);
  if (compute_requires_grad(self)) return SquareFunction::apply(self);
  const at::AutoDispatchBelowADInplaceOrView guard; // apply() would make a node all the same
  return torchsquare::square(self);
}

at::Tensor square_backward_autograd(const at::Tensor& grad_output, const at::Tensor& self) {
  if (needs_composite(grad_output, self)) return composite::square_backward(grad_output, self);
  if (compute_requires_grad(grad_output, self)) return SquareBackwardFunction::apply(grad_output, self);
  const at::AutoDispatchBelowADInplaceOrView guard;
  return square_backward(grad_output, self);
}

} // namespace
} // namespace torchsquare

TORCH_LIBRARY_IMPL(torchsquare, Autograd, m) {
  m.impl("square", torchsquare::square_autograd);
  m.impl("square_backward", torchsquare::square_backward_autograd);
}
