/* SPDX-License-Identifier: Apache-2.0 */

/* The defaults of servers and clients. Loop thread. */

#include "default_settings.h"

#include "daemon.h"

struct settings default_settings(const struct daemon *daemon)
{
	const struct settings *const layers[LAYERS] = {
		[LAYER_ENVIRONMENT] = &daemon->environment,
		[LAYER_DEFAULT] = &daemon->default_file,
		[LAYER_DEFAULT_COMMAND] = &daemon->default_commands,
	};

	return settings_fold(layers, &daemon->devices);
}
