/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEFAULT_SETTINGS_H
#define DEFAULT_SETTINGS_H

#include "daemon/config/settings.h"

struct daemon;

/* The defaults that count, of all their layers. Loop thread. */
struct settings default_settings(const struct daemon *daemon);

#endif
