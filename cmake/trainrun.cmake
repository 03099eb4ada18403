# Flags that every target gets, and the two functions by which targets are made.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

set(TRAINRUN_SANITIZE "" CACHE STRING "empty, 'address,undefined' or 'thread'")
# `dev` leaves out those that look at every access to memory: they double the time of compiling, and ASan sees most of
# what they see. `fuzz` has them all.
set(TRAINRUN_NO_SANITIZE "" CACHE STRING "checks of UBSan that are left out")
option(TRAINRUN_WERROR "treat warnings as errors" OFF)

find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED)
find_package(fmt REQUIRED)
find_package(PkgConfig REQUIRED)

# -fno-coroutines: g++ 12.2 miscompiles `if (co_await ...)`; see launcher/decisions/0001.
# -Wno-maybe-uninitialized -Wno-tsan: g++ 12 reports every std::optional that is tested before its use.
add_library(trainrun_flags INTERFACE)
target_compile_options(trainrun_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual -Wold-style-cast -Wswitch
  -Wimplicit-fallthrough -Wformat=2 $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized$<SEMICOLON>-Wno-tsan>
  -Werror=switch $<$<CXX_COMPILER_ID:GNU>:-fno-coroutines> -fvisibility=hidden -fno-omit-frame-pointer)
if(TRAINRUN_WERROR)
  target_compile_options(trainrun_flags INTERFACE -Werror)
endif()
target_compile_definitions(trainrun_flags INTERFACE BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_SEPARATE_COMPILATION
  TRAINRUN_VERSION="${PROJECT_VERSION}")
target_include_directories(trainrun_flags INTERFACE ${CMAKE_SOURCE_DIR})
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  target_compile_options(trainrun_flags INTERFACE -D_FORTIFY_SOURCE=2 -D_GLIBCXX_ASSERTIONS -fstack-protector-strong)
  # What no caller reaches is left out: fewer pages and relocations at each start.
  target_compile_options(trainrun_flags INTERFACE -ffunction-sections -fdata-sections)
  target_link_options(trainrun_flags INTERFACE -Wl,-z,relro,-z,now -Wl,--gc-sections -Wl,--as-needed)
endif()

# Sanitizers are apart from the flags above: the agent that is embedded in trainrun is static, and cannot have them.
add_library(trainrun_sanitizers INTERFACE)
if(TRAINRUN_SANITIZE)
  target_compile_options(trainrun_sanitizers INTERFACE -fsanitize=${TRAINRUN_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(trainrun_sanitizers INTERFACE -fsanitize=${TRAINRUN_SANITIZE})
  if(TRAINRUN_NO_SANITIZE)
    target_compile_options(trainrun_sanitizers INTERFACE -fno-sanitize=${TRAINRUN_NO_SANITIZE})
  endif()
  if(TRAINRUN_SANITIZE STREQUAL "thread")
    target_compile_options(trainrun_sanitizers INTERFACE -Wno-tsan)  # Asio has fences, which TSan does not follow
  endif()
endif()

# The headers that nearly every file includes are parsed once a set of flags, not once a file: a third of the time that
# a build with sanitizers takes. Release builds go without: there a file that does not include what it uses is an error.
set(trainrun_common_headers <algorithm> <array> <cerrno> <chrono> <cstdint> <cstring> <functional> <map> <memory>
    <optional> <set> <string> <string_view> <utility> <variant> <vector> <fmt/format.h>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(trainrun_precompile ON)
endif()

# trainrun_precompiled(OWNER [HEADERS...] [DEPS...] [OPTIONS...]): a target that is nothing but the precompiled headers of others.
function(trainrun_precompiled owner)
  cmake_parse_arguments(arg "" "" "HEADERS;DEPS;OPTIONS" ${ARGN})
  if(trainrun_precompile)
    add_library(${owner} OBJECT ${CMAKE_SOURCE_DIR}/cmake/precompiled.cc)
    target_link_libraries(${owner} PRIVATE trainrun_flags ${arg_DEPS})
    target_compile_options(${owner} PRIVATE ${arg_OPTIONS})
    target_precompile_headers(${owner} PRIVATE ${trainrun_common_headers} ${arg_HEADERS})
  endif()
endfunction()
function(trainrun_use_precompiled target owner)
  if(trainrun_precompile)
    target_precompile_headers(${target} REUSE_FROM ${owner})
  endif()
endfunction()
trainrun_precompiled(trainrun_precompiled_checked DEPS trainrun_sanitizers)
trainrun_precompiled(trainrun_precompiled_plain)
trainrun_precompiled(trainrun_precompiled_test HEADERS <doctest/doctest.h> DEPS trainrun_sanitizers OPTIONS -O0)

# trainrun_library(NAME [AGENT] SOURCES ... [DEPS ...])
# A folder's static library. AGENT: it is also linked into the static agent, so a build with sanitizers makes a second
# library NAME_plain without them (in other builds NAME_plain is an alias).
function(trainrun_library name)
  cmake_parse_arguments(arg "AGENT" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC trainrun_flags trainrun_sanitizers ${arg_DEPS})
  trainrun_use_precompiled(${name} trainrun_precompiled_checked)
  if(arg_AGENT)
    if(TRAINRUN_SANITIZE)
      add_library(${name}_plain STATIC ${arg_SOURCES})
      set(plain_deps ${arg_DEPS})
      list(TRANSFORM plain_deps APPEND _plain REGEX "^trainrun_")
      target_link_libraries(${name}_plain PUBLIC trainrun_flags ${plain_deps})
      trainrun_use_precompiled(${name}_plain trainrun_precompiled_plain)
    else()
      add_library(${name}_plain ALIAS ${name})
    endif()
  endif()
endfunction()

# trainrun_unit_test(NAME SOURCES ... DEPS ...): one doctest program, one ctest entry `unit.NAME`.
add_library(trainrun_unit_main OBJECT EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/tests/unit/main.cc)  # seconds to compile
target_link_libraries(trainrun_unit_main PUBLIC trainrun_flags trainrun_sanitizers)
function(trainrun_unit_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(unit_${name} ${arg_SOURCES})
  target_link_libraries(unit_${name} PRIVATE trainrun_unit_main ${arg_DEPS})
  # Nobody waits for a test's own code, but everybody for its compiling. -fPIC, not -fPIE: as the precompiled headers.
  target_compile_options(unit_${name} PRIVATE $<$<CONFIG:Debug>:-O0$<SEMICOLON>-fPIC>)
  trainrun_use_precompiled(unit_${name} trainrun_precompiled_test)
  add_test(NAME unit.${name} COMMAND unit_${name})
  set_tests_properties(unit.${name} PROPERTIES TIMEOUT 120 LABELS "unit;quick")
endfunction()
