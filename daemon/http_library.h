/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_LIBRARY_H
#define HTTP_LIBRARY_H

/*
 * libmicrohttpd, which is loaded only by a daemon that listens for HTTP. Linked in, it would
 * load a TLS library, too, at each start of mps-control; its static library needs the same.
 * Loop thread.
 */

#include <microhttpd.h>

#include "base.h"

/* The functions by their names without "MHD_". */
struct http_library {
	__typeof__(MHD_start_daemon) *start_daemon;
	__typeof__(MHD_stop_daemon) *stop_daemon;
	__typeof__(MHD_run) *run;
	__typeof__(MHD_get_timeout) *get_timeout;
	__typeof__(MHD_get_daemon_info) *get_daemon_info;
	__typeof__(MHD_get_connection_info) *get_connection_info;
	__typeof__(MHD_suspend_connection) *suspend_connection;
	__typeof__(MHD_resume_connection) *resume_connection;
	__typeof__(MHD_create_response_from_buffer) *create_response_from_buffer;
	__typeof__(MHD_add_response_header) *add_response_header;
	__typeof__(MHD_queue_response) *queue_response;
	__typeof__(MHD_destroy_response) *destroy_response;
};

/* NULL: the library is not installed, or is too old. */
const struct http_library *http_library_load(void);

#endif
