# `trainrun ctl`: asks a running launcher. Apart from trainrun_cli, which opens no socket.
trainrun_library(trainrun_ctl
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/ctl.cc ${CMAKE_CURRENT_LIST_DIR}/ctl_text.cc ${CMAKE_CURRENT_LIST_DIR}/ctl_words.cc
  DEPS trainrun_cli trainrun_control trainrun_output trainrun_base)

trainrun_unit_test(ctl
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/cli/ctl_test.cc ${CMAKE_SOURCE_DIR}/tests/unit/cli/ctl_text_test.cc
          ${CMAKE_SOURCE_DIR}/tests/unit/cli/ctl_words_test.cc
  DEPS trainrun_ctl)
