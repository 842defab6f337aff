/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_H
#define HTTP_H

/*
 * Answers GET /metrics over HTTP. libmicrohttpd runs without threads of its own: the program
 * waits for its epoll descriptor and for the daemon. Peers are hostile: each connection has a
 * deadline and makes one request; their number is bounded, and all requests within a second get the
 * same page.
 */

/*
 * Answers on the listening socket until the daemon closes its connection. `subuid_path' is the
 * file of subordinate UIDs. Returns the exit status of the program.
 */
int http_run(int listener, int daemon, const char *subuid_path);

#endif
