/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXPORTER_START_H
#define EXPORTER_START_H

/* How the daemon starts mps-exporter: `mps-exporter SUBUID_FILE [UID GID]'. */

/* The socket that listens for HTTP, and a connection to the daemon that permits only `metrics'. */
#define EXPORTER_LISTENER_FD 3
#define EXPORTER_DAEMON_FD 4

/* The loader's exit status if libmicrohttpd is missing: starting the program again does not help.
 */
#define EXPORTER_NO_LIBRARY 127

#endif
