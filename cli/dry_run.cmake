# The texts of --dry-run. A library of its own, since its JSON library is named nowhere else.
find_package(nlohmann_json REQUIRED)
trainrun_library(trainrun_dry_run
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/dry_run.cc ${CMAKE_CURRENT_LIST_DIR}/dry_run_elastic.cc ${CMAKE_CURRENT_LIST_DIR}/dry_run_mpi.cc
  DEPS trainrun_core nlohmann_json::nlohmann_json)

trainrun_unit_test(dry_run
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/cli/dry_run_test.cc
  DEPS trainrun_dry_run nlohmann_json::nlohmann_json)
target_compile_definitions(unit_dry_run PRIVATE TRAINRUN_GOLDEN="${CMAKE_SOURCE_DIR}/tests/golden")
