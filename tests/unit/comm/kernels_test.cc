#include "comm/kernels.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <limits>

using namespace trainrun::comm;

TEST_CASE("every type has a size and every operation on it a kernel") {
  for (const auto dtype : {TRC_U8, TRC_I8, TRC_I32, TRC_I64, TRC_F32, TRC_F64}) {
    CHECK(size_of(dtype) > 0);
    for (const auto op : {TRC_SUM, TRC_MEAN, TRC_MIN, TRC_MAX, TRC_PROD})
      CHECK((reduce_kernel(dtype, op) != nullptr));
  }
  CHECK(size_of(static_cast<trc_dtype>(6)) == 0);
  CHECK((reduce_kernel(static_cast<trc_dtype>(6), TRC_SUM) == nullptr));
  CHECK((reduce_kernel(TRC_F32, static_cast<trc_op>(5)) == nullptr));
}

TEST_CASE("integers wrap instead of overflowing") {
  std::int32_t most = std::numeric_limits<std::int32_t>::max(), one = 1, out = 0;
  reduce_kernel(TRC_I32, TRC_SUM)(&out, &most, &one, 1);
  CHECK(out == std::numeric_limits<std::int32_t>::min());
  std::uint8_t a = 200, b = 100, c = 0;
  reduce_kernel(TRC_U8, TRC_SUM)(&c, &a, &b, 1);
  CHECK(c == 44);
  std::int8_t x = -100, y = 3, z = 0;
  reduce_kernel(TRC_I8, TRC_PROD)(&z, &x, &y, 1);
  CHECK(z == -44);
}

TEST_CASE("the output may be one of the inputs") {
  std::array<double, 3> a{1, 5, 3}, b{4, 2, 3};
  reduce_kernel(TRC_F64, TRC_MAX)(a.data(), a.data(), b.data(), 3);
  CHECK(a == std::array<double, 3>{4, 5, 3});
  reduce_kernel(TRC_F64, TRC_MIN)(b.data(), a.data(), b.data(), 3);
  CHECK(b == std::array<double, 3>{4, 2, 3});
}

TEST_CASE("the mean of narrow integers is formed in 64 bits and cut towards zero") {
  CHECK(needs_widening(TRC_U8, TRC_MEAN));
  CHECK_FALSE(needs_widening(TRC_U8, TRC_SUM));
  CHECK_FALSE(needs_widening(TRC_F32, TRC_MEAN));
  const std::array<std::int8_t, 2> in{-128, 127};
  auto wide = widened(in.data(), 2, TRC_I8);
  CHECK(wide == std::vector<std::int64_t>{-128, 127});
  wide = {-7, 7};
  finish_mean(wide.data(), 2, TRC_I64, 2);
  std::array<std::int32_t, 2> out{};
  narrow(wide, out.data(), TRC_I32);
  CHECK(out == std::array<std::int32_t, 2>{-3, 3});
}
