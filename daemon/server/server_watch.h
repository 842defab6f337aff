/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_WATCH_H
#define SERVER_WATCH_H

/*
 * Tables of rooms above that hear what happens to each server. Loop thread. The list of them is in
 * struct daemon.
 */

struct client;
struct server;

/* NULL: nothing. */
struct server_watch {
	/* The server was started. */
	void (*on_start)(struct server *server);
	/* The server's connection takes frames: sends what the server was not sent yet. */
	void (*on_writable)(struct server *server);
	/* The server's connection is gone, or the server has ended: no answer will come. */
	void (*on_lost)(struct server *server);
	/* The successor has those of the server's clients that are marked as moving. */
	void (*on_move)(struct server *server, const struct server *successor);
	/* The server has ended, and still has the clients that end with it. */
	void (*on_end)(struct server *server);
	/* The client has ended. It is in no list any more, and is freed afterwards. */
	void (*on_client_end)(struct server *server, const struct client *client);
};

void server_watch_start(struct server *server);
void server_watch_lost(struct server *server);
void server_watch_move(struct server *server, const struct server *successor);
void server_watch_end(struct server *server);
void server_watch_client_end(struct server *server, const struct client *client);

/* Sends the server a shutdown that was requested and not sent yet. */
void server_send_shutdown(struct server *server);

/* Sends the server everything that it was not sent yet, and hands over clients. */
void server_send_due(struct server *server);

#endif
