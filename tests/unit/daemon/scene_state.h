/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCENE_STATE_H
#define SCENE_STATE_H

/*
 * The peers of a scene's daemon, for the files of the scene (scene.h).
 */

#include "frame.h"
#include "daemon/state/daemon.h"
#include "tests/fuzz/fake_system.h"

#define CLIENTS_MAX 1100
#define COMMANDS_MAX 600
#define NAME_MAX_SIZE 8
#define NOBODY 65534

enum fate {
	FATE_WAITS,
	FATE_TURN,
	FATE_REFUSED,
	FATE_CLOSED,
	FATE_SERVED,
	FATE_LEFT,
};

struct scene_client {
	char name[NAME_MAX_SIZE];
	uid_t uid;
	pid_t pid;
	int fd;
	enum fate fate;
	uint32_t result; /* of the refusal */
	unsigned server; /* that serves it */
	uint64_t id;     /* in that server */
	bool is_asked;   /* the server was asked to end its work */
	bool is_held;    /* the server was asked to suspend it */
	bool stays;      /* it does not move to another server */
	uint32_t number; /* of that order */
	struct frame_limits limits;
	struct frame_reader *reader;
};

struct scene_server {
	bool is_asleep, is_busy, is_told, is_forced;
	struct frame_reader *reader;
};

enum answer {
	ANSWER_NONE,
	ANSWER_DONE,
	ANSWER_FAILED,
	ANSWER_CLOSED,
};

struct scene_command {
	int fd;
	char letter;    /* of its user */
	bool is_silent; /* no command was given */
	enum answer answer;
	char text[4096];
	size_t size;
};

extern struct scene {
	struct daemon *daemon;
	struct scene_client clients[CLIENTS_MAX];
	unsigned n_clients;
	struct scene_server servers[FAKE_SERVERS_MAX];
	struct scene_command commands[COMMANDS_MAX];
	unsigned n_commands;
	struct frame_group group; /* the last one that a server was told about */
	unsigned conns_max;
	int listening;
	char log_directory[sizeof("/tmp/mps-scene-XXXXXX")];
	char texts[8192]; /* of refusals */
} scene;

/* The UID that a letter stands for, and the reverse. */
uid_t scene_uid(char letter);
char scene_letter(uid_t uid);

/* The last client of that name. The first returns NULL if there is none, the second fails. */
struct scene_client *scene_find_client(const char *name);
struct scene_client *scene_client(const char *name);

/* The process of server i, from 0. */
struct fake_server *scene_process(unsigned i);

struct frame_reader *scene_new_reader(void);
void scene_free_reader(struct frame_reader **reader);

/* The peer's end of a new connection with its first bytes; negative: the daemon accepts none. */
int scene_connect(pid_t pid, uid_t uid, uint32_t entry, const void *bytes, size_t size);

void scene_send(int fd, const void *bytes, size_t size);

/* Closes a server's connection; ends its process. */
void scene_disconnect(unsigned i);
void scene_end_process(unsigned i, int status);

/* Lets the daemon and its servers do what they can. */
void scene_settle(void);

void scene_let_pass(uint64_t ms);

/* Removes the script's next word, which ends at a blank outside brackets; NULL: there is none. */
const char *scene_next_word(const char **script, char *word, size_t size);

#endif
