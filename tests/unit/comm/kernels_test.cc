#include "comm/kernels.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>

#include "comm/reduction.h"
#include "tests/unit/comm/backends/typed_buffer.h"

using namespace trainrun::comm;

namespace {

// Those that this machine has.
std::vector<Simd> processors() {
  std::vector<Simd> found;
  for (const auto simd : {Simd::plain, Simd::avx2, Simd::avx512})
    if (simd <= best_simd()) found.push_back(simd);
  return found;
}

// Whole numbers such that neither the sum nor the product of three leaves a signed byte or loses a bit of
// f16.
double small_value(trc_dtype dtype, std::mt19937& random) {
  const int value = static_cast<int>(random() % 6);
  if (dtype == TRC_BOOL) return value % 2;
  return dtype == TRC_U8 || value % 2 == 0 ? value : -value;
}

}  // namespace

TEST_CASE("what is true is 1 also where nobody else gives anything") {
  const unsigned char in[] = {0, 1, 2, 255};
  unsigned char out[4] = {};
  const void* const from = in;
  reduce_all({TRC_BOOL, TRC_MAX}, out, &from, 4);
  CHECK(std::vector<int>(out, out + 4) == std::vector<int>{0, 1, 1, 1});
}

TEST_CASE("which operations there are on which types") {
  for (const auto dtype : all_types) {
    CHECK(size_of(dtype) > 0);
    for (const auto op : {TRC_SUM, TRC_MIN, TRC_MAX, TRC_PROD}) CHECK(can_reduce(dtype, op));
    CHECK(can_reduce(dtype, TRC_MEAN) == (dtype != TRC_BOOL));
    for (const auto op : {TRC_BAND, TRC_BOR, TRC_BXOR}) CHECK(can_reduce(dtype, op) == !is_floating(dtype));
    for (const auto op : all_reductions)
      if (can_reduce(dtype, op)) CHECK((reduce_kernel(wide_type(dtype, op), op) != nullptr));
  }
  CHECK(size_of(static_cast<trc_dtype>(9)) == 0);
  CHECK_FALSE(can_reduce(static_cast<trc_dtype>(9), TRC_SUM));
  CHECK_FALSE(can_reduce(TRC_F32, static_cast<trc_op>(8)));
  CHECK((reduce_kernel(static_cast<trc_dtype>(9), TRC_SUM) == nullptr));
  CHECK((reduce_kernel(TRC_F32, static_cast<trc_op>(8)) == nullptr));
}

TEST_CASE("every reduction of every type on every kind of processor gives the reference's values") {
  std::mt19937 random(7);
  for (const auto simd : processors())
    for (const auto dtype : all_types)
      for (const auto op : all_reductions) {
        if (!can_reduce(dtype, op) || wide_type(dtype, op) != dtype) continue;
        for (const std::size_t count : {0, 1, 3, 8, 31, 64, 67, 1003})
          for (const std::size_t offset : {0, 1, 3}) {
            TypedBuffer a(dtype, count, offset), b(dtype, count, 0), out(dtype, count, offset);
            for (std::size_t i = 0; i < count; ++i)
              a.set(i, small_value(dtype, random)), b.set(i, small_value(dtype, random));
            reduce_kernel(dtype, op, simd)(out.data(), a.data(), b.data(), count);
            const auto once = op == TRC_MEAN ? TRC_SUM : op;
            bool right = out.intact();
            for (std::size_t i = 0; i < count; ++i)
              right = right && out.get(i) == reference(dtype, once, {a.get(i), b.get(i)});
            CHECK_MESSAGE(right, name_of(op), " of ", count, " ", name_of(dtype), ", offset ", offset,
                          ", processor ", static_cast<int>(simd));
          }
      }
}

TEST_CASE(
    "every value of f16 and bf16 becomes the f32 that it is, and comes back, on every kind of processor") {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  for (const auto simd : processors())
    for (const auto dtype : {TRC_F16, TRC_BF16}) {
      const int mantissa = dtype == TRC_F16 ? 10 : 7;
      std::vector<float> wide(all.size());
      widen(wide.data(), all.data(), all.size(), dtype, simd);
      std::vector<std::uint16_t> back(all.size());
      narrow(back.data(), wide.data(), all.size(), dtype, simd);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < all.size(); ++i) {
        const double value = value_of_half(all[i], mantissa);
        const double came = static_cast<double>(wide[i]);
        const bool same = std::isnan(value) ? std::isnan(came) && std::isnan(value_of_half(back[i], mantissa))
                                            : came == value && std::signbit(came) == std::signbit(value) &&
                                                  back[i] == all[i];
        if (!same) ++wrong;
      }
      CHECK_MESSAGE(wrong == 0, name_of(dtype), " on processor ", static_cast<int>(simd));
    }
}

TEST_CASE("f32 is rounded to the nearest f16 and bf16, of two to the even one, on every kind of processor") {
  std::mt19937 random(11);
  std::vector<float> wide;
  for (int i = 0; i < 100'000; ++i) {
    const auto bits = static_cast<std::uint32_t>(random());
    float value;
    std::memcpy(&value, &bits, sizeof value);
    wide.push_back(value);
  }
  // Where each of the two has its edges: half-way points, the largest, the smallest, and what lies beside
  // them.
  for (const int mantissa : {10, 7})
    for (unsigned half = 0; half < 0x7fff; half += mantissa == 10 ? 1 : 5) {
      const auto low = static_cast<std::uint16_t>(half), high = static_cast<std::uint16_t>(half + 1);
      const double middle = (value_of_half(low, mantissa) + value_of_half(high, mantissa)) / 2;
      if (!std::isfinite(middle)) continue;
      const auto f = static_cast<float>(middle);
      wide.insert(wide.end(), {f, std::nextafter(f, 0.0F), std::nextafter(f, INFINITY), -f});
    }
  wide.insert(wide.end(),
              {65504, 65519, 65520, 65536, 0x1p-24F, 0x1p-25F, 0x1.8p-25F, -0.0F, INFINITY, -INFINITY, NAN});
  for (const auto simd : processors())
    for (const auto dtype : {TRC_F16, TRC_BF16}) {
      const int mantissa = dtype == TRC_F16 ? 10 : 7;
      std::vector<std::uint16_t> rounded(wide.size());
      narrow(rounded.data(), wide.data(), wide.size(), dtype, simd);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < wide.size(); ++i) {
        const auto expected = half_of_value(static_cast<double>(wide[i]), mantissa);
        const bool same =
            std::isnan(wide[i]) ? std::isnan(value_of_half(rounded[i], mantissa)) : rounded[i] == expected;
        if (!same && ++wrong == 1) MESSAGE("first: ", wide[i], " became ", rounded[i], ", not ", expected);
      }
      CHECK_MESSAGE(wrong == 0, name_of(dtype), " on processor ", static_cast<int>(simd));
    }
}

TEST_CASE("a NaN is the minimum and the maximum, whichever rank has it") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto simd : processors())
    for (const auto dtype : {TRC_F32, TRC_F64})
      for (const auto op : {TRC_MIN, TRC_MAX}) {
        TypedBuffer a(dtype, 67, 0), b(dtype, 67, 0), out(dtype, 67, 0);
        for (std::size_t i = 0; i < 67; ++i)
          a.set(i, i % 3 == 0 ? nan : 2.0), b.set(i, i % 3 == 1 ? nan : 2.0);
        reduce_kernel(dtype, op, simd)(out.data(), a.data(), b.data(), 67);
        bool right = true;
        for (std::size_t i = 0; i < 67; ++i) right = right && std::isnan(out.get(i)) == (i % 3 != 2);
        CHECK_MESSAGE(right, name_of(op), " of ", name_of(dtype), ", processor ", static_cast<int>(simd));
      }
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

TEST_CASE("every byte but 0 is true, and results are 0 or 1") {
  const std::array<std::uint8_t, 4> a{0, 7, 0, 255}, b{0, 0, 2, 128};
  std::array<std::uint8_t, 4> out{};
  reduce_kernel(TRC_BOOL, TRC_SUM)(out.data(), a.data(), b.data(), 4);
  CHECK(out == std::array<std::uint8_t, 4>{0, 1, 1, 1});
  reduce_kernel(TRC_BOOL, TRC_BAND)(out.data(), a.data(), b.data(), 4);
  CHECK(out == std::array<std::uint8_t, 4>{0, 0, 0, 1});
  reduce_kernel(TRC_BOOL, TRC_BXOR)(out.data(), a.data(), b.data(), 4);
  CHECK(out == std::array<std::uint8_t, 4>{0, 1, 1, 0});
}

TEST_CASE("the output may be one of the inputs, also that of a later rank") {
  std::array<double, 3> a{1, 5, 3}, b{4, 2, 3};
  reduce_kernel(TRC_F64, TRC_MAX)(a.data(), a.data(), b.data(), 3);
  CHECK(a == std::array<double, 3>{4, 5, 3});
  reduce_kernel(TRC_F64, TRC_MIN)(b.data(), a.data(), b.data(), 3);
  CHECK(b == std::array<double, 3>{4, 2, 3});
  for (const std::size_t own : {0, 1, 2, 3}) {
    std::vector<std::vector<float>> ranks;
    for (int rank = 0; rank < 4; ++rank) ranks.emplace_back(2500, static_cast<float>(1 << rank));
    const void* in[] = {ranks[0].data(), ranks[1].data(), ranks[2].data(), ranks[3].data()};
    reduce_all({TRC_F32, TRC_SUM, 1, 1, 4}, ranks[own].data(), in, 2500);
    CHECK(ranks[own] == std::vector<float>(2500, 15));
  }
}

TEST_CASE("a sum of halves is rounded once") {
  // In f16 each 1 alone would be lost beside 2048.
  const std::array<std::uint16_t, 1> large{half_of_value(2048, 10)}, one{half_of_value(1, 10)};
  const void* in[] = {large.data(), one.data(), one.data(), one.data(), one.data()};
  std::uint16_t out = 0;
  reduce_all({TRC_F16, TRC_SUM, 1, 1, 5}, &out, in, 1);
  CHECK(value_of_half(out, 10) == 2052);
}

TEST_CASE("factors go before and after a reduction, of one rank too") {
  for (const auto dtype : {TRC_F16, TRC_BF16, TRC_F32, TRC_F64}) {
    TypedBuffer a(dtype, 1500, 1), b(dtype, 1500, 0), out(dtype, 1500, 3);
    for (std::size_t i = 0; i < 1500; ++i) a.set(i, 4), b.set(i, 6);
    const void* in[] = {a.data(), b.data()};
    reduce_all({dtype, TRC_MAX, -0.5, 4, 2}, out.data(), in, 1500);
    CHECK(out.get(0) == -8);
    CHECK(out.get(1499) == -8);
    reduce_all({dtype, TRC_MEAN, 2, 0.5, 2}, out.data(), in, 1500);
    CHECK(out.get(1499) == 5);
    reduce_all({dtype, TRC_SUM, 2, 4, 1}, out.data(), in, 1500);
    CHECK(out.get(1499) == 32);
    CHECK(out.intact());
  }
}

TEST_CASE("the mean of narrow integers is formed in 64 bits and cut towards zero") {
  const std::array<std::int8_t, 2> a{-128, 127}, b{-127, 126};
  const void* in[] = {a.data(), b.data()};
  std::array<std::int8_t, 2> out{};
  reduce_all({TRC_I8, TRC_MEAN, 1, 1, 2}, out.data(), in, 2);
  CHECK(out == std::array<std::int8_t, 2>{-127, 126});
}
