// What the modes of nccl_worker have in common.
#pragma once

#include <string>

#include "trainrun_nccl.hpp"

void say(const std::string& line);
int failed();  // says what trc_last_error tells
int wrong(const char* what);

// Lists of tensors of several types, by every type on the wire, against what they must give.
int lists(trc_group* group, trc_group* of_hosts, int rank, int size);
// One list, whose failure is told.
int one_list(trc_group* group);
