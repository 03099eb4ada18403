// The kernels of devices, run on the host: the same code. Nothing here is about a GPU.
#include "comm/backends/nccl/kernels.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "comm/backends/nccl/fusion_plan.h"
#include "comm/backends/nccl/kernels/image.h"

using namespace trainrun::comm;
using namespace trainrun::comm::nccl;

namespace {

// A 16-bit float with `bits` of fraction, in doubles alone.
struct Format {
  int bits, bias;

  [[nodiscard]] double value(std::uint16_t half) const {
    const int exponent = (half & 0x7fff) >> bits, fraction = half & ((1 << bits) - 1);
    const double sign = (half & 0x8000) != 0 ? -1 : 1;
    if (exponent == 2 * bias + 1) return fraction == 0 ? sign * HUGE_VAL : std::nan("");
    if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - bits);
    return sign * std::ldexp(fraction + (1 << bits), exponent - bias - bits);
  }
  // To the nearest, halfway to even.
  [[nodiscard]] double rounded(double x) const {
    if (x == 0 || !std::isfinite(x)) return x;
    const int unit = std::max(std::ilogb(x), 1 - bias) - bits;
    const double near = std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
    return std::fabs(near) >= std::ldexp(1, bias + 1) ? std::copysign(HUGE_VAL, x) : near;
  }
};
constexpr Format f16{10, 15}, bf16{7, 127};

void run(std::span<const Piece> pieces, float factor, unsigned threads) {
  Batch batch;
  batch.factor = factor;
  std::uint32_t blocks = 0;
  for (auto piece : pieces) {
    piece.first_block = blocks;
    blocks += blocks_of(piece.count);
    batch.pieces[batch.count++] = piece;
  }
  for (std::uint32_t block = 0; block < blocks; ++block)
    for (unsigned thread = 0; thread < threads; ++thread) convert(batch, {block, thread, threads});
}

template <class To, class From>
std::vector<To> converted(const std::vector<From>& in, Element from, Element to, float factor = 1) {
  std::vector<To> out(in.size());
  run(std::vector<Piece>{{in.data(), out.data(), in.size(), from, to}}, factor, 7);
  return out;
}

bool same(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

std::vector<std::uint16_t> all_halves() {
  std::vector<std::uint16_t> all;
  for (unsigned bits = 0; bits <= 0xffff; ++bits) all.push_back(static_cast<std::uint16_t>(bits));
  return all;
}

// Each value of the format, what is halfway to the next, what is just beside these, and numbers from
// everywhere.
std::vector<float> around(const Format& format) {
  std::vector<float> all;
  const float infinity = std::numeric_limits<float>::infinity();
  for (unsigned bits = 0; bits < 0x7fff; ++bits) {
    const double low = format.value(static_cast<std::uint16_t>(bits)),
                 high = format.value(static_cast<std::uint16_t>(bits + 1));
    if (!std::isfinite(low) || !std::isfinite(high)) continue;
    for (const double x : {low, (low + high) / 2}) {
      const auto middle = static_cast<float>(x);
      for (const float one : {middle, std::nextafter(middle, infinity), std::nextafter(middle, -infinity)}) {
        all.push_back(one);
        all.push_back(-one);
      }
    }
  }
  for (std::uint64_t bits = 0; bits <= 0xffffffff; bits += 65521)
    all.push_back(float_of(static_cast<std::uint32_t>(bits)));
  for (const float one :
       {infinity, -infinity, std::nanf(""), -std::nanf("1"), 65519.996F, 65520.0F, 3.3895314e38F,
        std::numeric_limits<float>::max(), std::numeric_limits<float>::denorm_min()})
    all.push_back(one);
  return all;
}

}  // namespace

TEST_CASE("nccl_kernels: each half is what it is in f32, and comes back as itself") {
  const auto halves = all_halves();
  for (const auto& [type, format] : {std::pair{Element::f16, f16}, {Element::bf16, bf16}}) {
    const auto wide = converted<float>(halves, type, Element::f32);
    const auto back = converted<std::uint16_t>(wide, Element::f32, type);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < halves.size(); ++i) {
      const auto value = format.value(halves[i]);
      if (!same(wide[i], value) ||
          (std::isnan(value) ? !std::isnan(format.value(back[i])) : back[i] != halves[i]))
        ++wrong;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("nccl_kernels: f32 is rounded to the nearest half, halfway to even, and no number stays none") {
  for (const auto& [type, format] : {std::pair{Element::f16, f16}, {Element::bf16, bf16}}) {
    const auto numbers = around(format);
    const auto halves = converted<std::uint16_t>(numbers, Element::f32, type);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i)
      if (!same(format.value(halves[i]), format.rounded(numbers[i]))) ++wrong;
    CHECK(wrong == 0);
  }
}

TEST_CASE("nccl_kernels: between halves and by a factor it goes over f32") {
  const auto halves = all_halves();
  std::size_t wrong = 0;
  const auto others = converted<std::uint16_t>(halves, Element::f16, Element::bf16, 0.3F);
  const auto back = converted<std::uint16_t>(halves, Element::bf16, Element::f16, -3.0F);
  const auto scaled = converted<std::uint16_t>(halves, Element::f16, Element::f16, 1 / 3.0F);
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const auto half = static_cast<float>(f16.value(halves[i])),
               other = static_cast<float>(bf16.value(halves[i]));
    if (!same(bf16.value(others[i]), bf16.rounded(half * 0.3F))) ++wrong;
    if (!same(f16.value(back[i]), f16.rounded(other * -3.0F))) ++wrong;
    if (!same(f16.value(scaled[i]), f16.rounded(half * (1 / 3.0F)))) ++wrong;
  }
  CHECK(wrong == 0);
  // Without a factor the bits of what is no number stay where the type does.
  const std::vector<float> odd{float_of(0x7fa00001), float_of(0xffc12345), -0.0F};
  const auto same_type = converted<float>(odd, Element::f32, Element::f32);
  CHECK(std::memcmp(odd.data(), same_type.data(), odd.size() * sizeof(float)) == 0);
}

TEST_CASE(
    "nccl_kernels: blocks of any size, wherever tensors lie, write each element once, and nothing else") {
  for (const unsigned threads : {1U, 3U, 32U, 256U})
    for (const std::size_t in_at : {0U, 1U, 4U})
      for (const std::size_t out_at : {0U, 1U, 4U, 8U}) {
        const std::vector<std::uint64_t> counts{0, 1, 7, 8, 31, 0, 4095, 4096, 4097, 9000, 257, 0};
        std::vector<std::vector<float>> in, out;
        std::vector<Piece> pieces;
        for (const auto count : counts) {
          in.emplace_back(count + in_at);
          out.emplace_back(out_at + count + 1, -1.0F);
          for (std::size_t i = 0; i < count; ++i) in.back()[in_at + i] = static_cast<float>(i);
          pieces.push_back(
              {in.back().data() + in_at, out.back().data() + out_at, count, Element::f32, Element::f32});
        }
        run(pieces, 2, threads);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < counts.size(); ++i)
          for (std::size_t k = 0; k < out[i].size(); ++k) {
            const bool written = k >= out_at && k < out_at + counts[i];
            wrong += out[i][k] != (written ? 2 * static_cast<float>(k - out_at) : -1.0F);
          }
        CHECK(wrong == 0);
      }
}

namespace {

struct Launch {
  unsigned blocks;
  std::uint32_t count;
  Piece first, last;
};
std::vector<Launch> launches;

CudaDriver driver_that_notes_launches() {
  CudaDriver cuda{};
  cuda.launch = [](void*, unsigned blocks, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
                   void** parameters, void**) {
    const auto& batch = *static_cast<const Batch*>(parameters[0]);
    launches.push_back({blocks, batch.count, batch.pieces[0], batch.pieces[batch.count - 1]});
    return launches.size() == 5 ? Cuda{719} : Cuda::success;
  };
  return cuda;
}

}  // namespace

TEST_CASE("nccl_kernels: many pieces are several launches, each of as many blocks as its pieces need") {
  launches.clear();
  const auto cuda = driver_that_notes_launches();
  const Kernels kernels(cuda);
  std::vector<Piece> pieces(250);
  for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i].count = i;
  pieces[130].count = 4'096'000'001;
  CHECK(kernels.convert(pieces, 1, nullptr) == Cuda::success);
  REQUIRE(launches.size() == 3);
  CHECK((launches[0].count == 120 && launches[1].count == 120 && launches[2].count == 10));
  CHECK((launches[0].blocks == 119 && launches[1].blocks == 1'000'120 && launches[2].blocks == 10));
  CHECK((launches[0].last.first_block == 118 && launches[1].last.first_block == 1'000'119));
  CHECK((launches[1].first.count == 120 && launches[2].first.count == 240));
  CHECK(kernels.convert({}, 1, nullptr) == Cuda::success);
  CHECK(kernels.convert(std::vector<Piece>(3), 1, nullptr) == Cuda::success);
  CHECK(kernels.convert(pieces, 1, nullptr) == Cuda{719});
  CHECK(launches.size() == 5);
}

TEST_CASE("nccl_kernels: a list goes through a small buffer piece by piece, there and back") {
  std::vector<float> a(10), b(3), results(20, -1.0F);
  std::vector<std::uint16_t> c(7);
  for (std::size_t i = 0; i < 10; ++i) a[i] = static_cast<float>(i);
  for (std::size_t i = 0; i < 3; ++i) b[i] = static_cast<float>(10 + i);
  for (std::size_t i = 0; i < 7; ++i) c[i] = bf16_of_f32(static_cast<float>(13 + i));
  std::vector<std::uint16_t> c_out(7);
  const std::vector<Tensor> tensors{{a.data(), results.data(), 10, TRC_F32},
                                    {nullptr, nullptr, 0, TRC_F16},
                                    {b.data(), results.data() + 10, 3, TRC_F32},
                                    {c.data(), c_out.data(), 7, TRC_BF16}};
  CHECK(padded_count(tensors) == 16 + 8 + 8);
  for (const std::uint64_t room : {8, 16, 24, 32, 64}) {
    std::fill(results.begin(), results.end(), -1.0F);
    std::vector<std::uint16_t> buffer(room);
    for (std::uint64_t begin = 0; begin < padded_count(tensors); begin += room)
      for (const auto way : {Way::into_buffer, Way::out_of_buffer}) {
        const auto pieces = pieces_of(tensors, TRC_F16, buffer.data(), begin, begin + room, way);
        for (const auto& piece : pieces) {
          const auto* const there =
              static_cast<const std::uint16_t*>(way == Way::into_buffer ? piece.out : piece.in);
          CHECK((there - buffer.data()) % 8 == 0);
        }
        run(pieces, 1, 4);
      }
    for (std::size_t i = 0; i < 13; ++i) CHECK(results[i] == static_cast<float>(i));
    for (std::size_t i = 0; i < 7; ++i) CHECK(f32_of_bf16(c_out[i]) == static_cast<float>(13 + i));
    for (std::size_t i = 13; i < 20; ++i) CHECK(results[i] == -1);
  }
}

// As NVIDIA's tools write it: a header, then for each code its kind (1: PTX, 2: an ELF file), sizes and
// architecture.
TEST_CASE("nccl_kernels: what is built in has the machine code and the PTX that it is said to have") {
  const auto image = kernels_image();
  if (kernels_architectures().empty()) {
    CHECK(std::string(image.begin(), image.end()) == "built without nvcc");
    return;
  }
  const auto read = [&]<class T>(std::size_t at, T) {
    REQUIRE(at + sizeof(T) <= image.size());
    return load<T>(image.data() + at, 0);
  };
  REQUIRE(read(0, std::uint32_t{}) == 0xba55ed50);
  REQUIRE(read(8, std::uint64_t{}) + 16 == image.size());
  std::vector<std::uint32_t> codes, ptx;
  for (std::size_t at = 16; at < image.size();) {
    (read(at, std::uint16_t{}) == 1 ? ptx : codes).push_back(read(at + 28, std::uint32_t{}));
    at += read(at + 4, std::uint32_t{}) + read(at + 8, std::uint64_t{});
  }
  std::vector<std::uint32_t> told;
  std::istringstream words{std::string(kernels_architectures())};
  for (std::uint32_t one = 0; words >> one;) told.push_back(one);
  std::sort(codes.begin(), codes.end());
  CHECK(codes == told);
  CHECK(ptx == std::vector<std::uint32_t>{told.back()});
}
