/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Loads libmicrohttpd. Loop thread.
 *
 * Invariant: the table is complete or not used.
 */

#include "http_library.h"

#include <dlfcn.h>
#include <string.h>

#define LIBRARY "libmicrohttpd.so.12"

/* The table's types are those of the library's header. */
#define CHECK_TYPE(name)                                                                           \
	_Static_assert(__builtin_types_compatible_p(__typeof__(&MHD_##name),                       \
			       __typeof__(((struct http_library *)NULL)->name)),                   \
		#name)

CHECK_TYPE(start_daemon);
CHECK_TYPE(stop_daemon);
CHECK_TYPE(run);
CHECK_TYPE(get_timeout);
CHECK_TYPE(get_daemon_info);
CHECK_TYPE(get_connection_info);
CHECK_TYPE(suspend_connection);
CHECK_TYPE(resume_connection);
CHECK_TYPE(create_response_from_buffer);
CHECK_TYPE(add_response_header);
CHECK_TYPE(queue_response);
CHECK_TYPE(destroy_response);

const struct http_library *http_library_load(void)
{
	static struct http_library http;
	const struct {
		const char *name;
		void *place;
	} functions[] = {
		{"MHD_start_daemon", &http.start_daemon},
		{"MHD_stop_daemon", &http.stop_daemon},
		{"MHD_run", &http.run},
		{"MHD_get_timeout", &http.get_timeout},
		{"MHD_get_daemon_info", &http.get_daemon_info},
		{"MHD_get_connection_info", &http.get_connection_info},
		{"MHD_suspend_connection", &http.suspend_connection},
		{"MHD_resume_connection", &http.resume_connection},
		{"MHD_create_response_from_buffer", &http.create_response_from_buffer},
		{"MHD_add_response_header", &http.add_response_header},
		{"MHD_queue_response", &http.queue_response},
		{"MHD_destroy_response", &http.destroy_response},
	};
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	_Static_assert(sizeof(http) == sizeof(void *) * ARRAY_SIZE(functions), "all functions");
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
		void *function = library ? dlsym(library, functions[i].name) : NULL;

		if (!function)
			return NULL;
		memcpy(functions[i].place, &function, sizeof(function));
	}
	return &http;
}
