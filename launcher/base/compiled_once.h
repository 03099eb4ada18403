// Copying, moving and destroying a variant of thirty structs is some hundred functions for the compiler, in
// every file that holds one. A struct that derives from such a variant declares them here and defines them in
// one file:
//
//   struct Shape : std::variant<Circle, Square> {
//     TRAINRUN_COMPILED_ONCE(Shape)
//   };
//   TRAINRUN_COMPILED_HERE(Shape)  // in shape.cc
//
// std::visit, get_if and holds_alternative take it as they take the variant; `Alternatives` is the variant's
// type.
#pragma once

#define TRAINRUN_COMPILED_ONCE(Type) \
  using Alternatives = variant;      \
  using variant::variant;            \
  Type();                            \
  Type(const Type&);                 \
  Type(Type&&) noexcept;             \
  Type& operator=(const Type&);      \
  Type& operator=(Type&&) noexcept;  \
  ~Type();

#define TRAINRUN_COMPILED_HERE(Type)                \
  Type::Type() = default;                           \
  Type::Type(const Type&) = default;                \
  Type::Type(Type&&) noexcept = default;            \
  Type& Type::operator=(const Type&) = default;     \
  Type& Type::operator=(Type&&) noexcept = default; \
  Type::~Type() = default;
