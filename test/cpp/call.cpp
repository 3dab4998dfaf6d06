// Calls torchsquare::square and its backward, on the CPU and on the GPU if there is one, and compares with at::square.
#include <ATen/ATen.h>
#include <torchsquare/square.h>

#include <iostream>

namespace {

bool check(at::Device device) {
  const auto run = [&](at::Tensor (*square)(const at::Tensor&)) {
    const auto x = at::arange(-3, 4, at::device(device).dtype(at::kFloat)).requires_grad_();
    const auto y = square(x);
    y.backward(at::full_like(y, 10));
    return std::pair(y, x.grad());
  };
  const auto [y, dx] = run(torchsquare::square);
  const auto [expected_y, expected_dx] = run(at::square);
  const bool equal = at::equal(y, expected_y) && at::equal(dx, expected_dx);
  std::cout << "square and backward, " << device << ": " << (equal ? "OK" : "FAILED") << "\n";
  return equal;
}

} // namespace

int main() {
  bool ok = check(at::kCPU);
  if (at::hasCUDA()) {
    ok &= check(at::kCUDA);
  }
  return ok ? 0 : 1;
}
