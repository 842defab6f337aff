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
	struct MHD_Daemon *(*start_daemon)(unsigned flags, uint16_t port,
		MHD_AcceptPolicyCallback on_peer, void *on_peer_arg,
		MHD_AccessHandlerCallback on_request, void *on_request_arg, ...);
	void (*stop_daemon)(struct MHD_Daemon *daemon);
	enum MHD_Result (*run)(struct MHD_Daemon *daemon);
	enum MHD_Result (*get_timeout)(struct MHD_Daemon *daemon, MHD_UNSIGNED_LONG_LONG *ret_ms);
	const union MHD_DaemonInfo *(*get_daemon_info)(
		struct MHD_Daemon *daemon, enum MHD_DaemonInfoType type, ...);
	const union MHD_ConnectionInfo *(*get_connection_info)(
		struct MHD_Connection *connection, enum MHD_ConnectionInfoType type, ...);
	void (*suspend_connection)(struct MHD_Connection *connection);
	void (*resume_connection)(struct MHD_Connection *connection);
	struct MHD_Response *(*create_response_from_buffer)(
		size_t size, void *bytes, enum MHD_ResponseMemoryMode mode);
	enum MHD_Result (*add_response_header)(
		struct MHD_Response *response, const char *name, const char *value);
	enum MHD_Result (*queue_response)(
		struct MHD_Connection *connection, unsigned status, struct MHD_Response *response);
	void (*destroy_response)(struct MHD_Response *response);
};

/* NULL: the library is not installed, or is too old. */
const struct http_library *http_library_load(void);

#endif
