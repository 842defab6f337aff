/* SPDX-License-Identifier: Apache-2.0 */

/* The calls with their plain symbols. */

#include "sync_table.h"
