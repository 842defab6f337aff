/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FRAME_H
#define FRAME_H

/*
 * Frames are the messages of the three programs over sockets: the handshake, the
 * hand-over of a connection, the life of a server. They are small and rare, and each
 * type has a fixed size. A first byte of 0 distinguishes a frame from a text command.
 * Work uses the ring (ring.h).
 *
 * A frame is a struct that begins with its head. Padding, and a string after its NUL,
 * are zero. Descriptors arrive with a frame's first byte.
 */

#include "base.h"
#include "bounds.h"
#include "counters.h"

#define FRAME_VERSION 3

/* Linux 6.16: whether others may send descriptors to a socket; connections inherit it. */
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

enum frame_type {
	FRAME_HELLO = 1,     /* client to daemon */
	FRAME_REFUSED,       /* daemon or server to client: the end of this connection */
	FRAME_WELCOME,       /* server to client, with the session's memory */
	FRAME_IMAGE,         /* client to server, with the descriptor of a sealed image */
	FRAME_SERVER,        /* server to daemon: its version, UID and PID */
	FRAME_SERVER_STATE,  /* server to daemon */
	FRAME_CLIENT,        /* daemon to server, with a client's connection */
	FRAME_CLIENT_HERE,   /* server to daemon: one of its clients, for a new daemon */
	FRAME_CLIENT_GONE,   /* server to daemon */
	FRAME_SHUTDOWN,      /* daemon to server */
	FRAME_MEMORY,        /* with the descriptor of memory */
	FRAME_OUTPUT,        /* daemon to server: a pipe for its log */
	FRAME_DEVICE,        /* server to daemon: one of its GPUs, before it is ACTIVE */
	FRAME_CONTEXT,       /* server to daemon: a client uses a GPU */
	FRAME_TERMINATE,     /* daemon to server: end the work of a client that stays connected */
	FRAME_TERMINATED,    /* server to daemon: the reply */
	FRAME_GROUP,         /* daemon to server: a group's limits, before its first client */
	FRAME_PENDING,       /* daemon to client: wait for another user's turn to end */
	FRAME_FAULT,         /* server to daemon: a GPU fault, and the client that caused it */
	FRAME_FAULT_ADDRESS, /* daemon to server: its address, from the kernel's log */
	FRAME_COUNTERS,      /* daemon to server: a request; server to daemon: of one client */
	FRAME_TRACE,         /* daemon to server: record, into the memory that comes with it */
	FRAME_TRACE_END,     /* daemon to server: end; server to daemon: it has ended */
	FRAME_GROUP_HERE,    /* server to daemon: a group of its clients, for a new daemon */
	FRAME_LEASE,         /* daemon to server: its lease of a group's memory */
	FRAME_LEASE_WANT,    /* server to daemon: it needs a larger lease; FRAME_LEASE replies */
	FRAME_LEASE_RETURN,  /* daemon to server: give back what is unused; the server replies */
	FRAME_RECEIVE,       /* server to its receiver: read a client's connection */
	FRAME_RECEIVED,      /* receiver to its server: the reply */
	FRAME_SUSPEND,       /* daemon to server: hold a client's messages, or serve them again */
	FRAME_SUSPENDED,     /* server to daemon: the reply, and again after each change */
	FRAME_RESTART,       /* daemon to server: move all clients, or take them */
	FRAME_RESTARTED,     /* server to daemon: the reply */
	FRAME_MOVE_BEGIN,    /* server to its successor: clients follow */
	FRAME_MOVE_CLIENT,   /* server to its successor: a client, with the state of its session */
	FRAME_MOVE_FDS,      /* server to its successor: further descriptors of that client */
	FRAME_MOVE_STEP,     /* between these two: how far the move is */
	FRAME_PAGE,          /* server to client: the page of a session that has moved */
	FRAME_FAULT_CLIENT,  /* server to daemon: a client that its fault costs something */
	FRAME_TYPE_MAX = FRAME_FAULT_CLIENT,
};

struct frame_head {
	uint8_t zero;
	uint8_t type;
	uint16_t n_fds;
	uint32_t size; /* bytes of the whole frame */
};

/* An environment variable of a client, unchanged. The client refuses longer ones. */
#define FRAME_TEXT_MAX 256

struct frame_variable {
	uint32_t is_set;
	char value[FRAME_TEXT_MAX - 4];
};

struct frame_hello {
	struct frame_head head;
	uint32_t version;
	uint32_t program; /* a hash of its executable and arguments */
	uint64_t spec_hash;
	uint32_t is_isolated; /* 1: MPS_ISOLATE requests a separate server */
	uint32_t continues;   /* 1: MPS_ON_FAULT=continue: a GPU fault costs it only its work */
	struct frame_variable group;           /* MPS_GROUP */
	struct frame_variable sm_partition;    /* CUDA_MPS_SM_PARTITION */
	struct frame_variable client_priority; /* CUDA_MPS_CLIENT_PRIORITY */
	char command[FRAME_TEXT_MAX];          /* argv[0], cut to fit; any bytes but NUL */
};

struct frame_refused {
	struct frame_head head;
	uint32_t result; /* a CUresult for every later call, never 0 */
	uint32_t reserved;
	char text[FRAME_TEXT_MAX]; /* what failed, where, and what to do */
};

struct frame_pending {
	struct frame_head head;
	char text[FRAME_TEXT_MAX]; /* the user for whom it waits */
};

/* Descriptors: request ring, staging, page (see layout.h). */
#define FRAME_WELCOME_FDS 3

struct frame_welcome {
	struct frame_head head;
	uint32_t version;
	uint32_t session; /* the ID of the session in log lines */
	uint64_t spec_hash;
	uint64_t server_pid;
	char cuda_library[FRAME_TEXT_MAX]; /* the path of the real libcuda that the server opened */
};

/* One descriptor: a memfd sealed against writing and resizing. */
struct frame_image {
	struct frame_head head;
	uint64_t size; /* bytes of the image and of the descriptor's file */
};

struct frame_server {
	struct frame_head head;
	uint32_t version;
	uint32_t uid;
	uint64_t spec_hash;
	uint64_t pid;
	uint64_t build; /* of its program (build_id.h); 0: not known */
};

enum server_state {
	SERVER_INITIALIZING = 1,
	SERVER_ACTIVE,
	SERVER_FAULT,
	SERVER_STOPPING, /* accepts no new clients */
	SERVER_STATE_MAX = SERVER_STOPPING,
};

struct frame_server_state {
	struct frame_head head;
	uint32_t state;
	uint32_t result; /* CUresult of the error, else 0 */
	uint64_t client; /* FAULT: the ID of the client that is known to have caused it, else 0 */
	uint32_t n_survivors; /* FAULT: clients that go on in a successor, which it asks for */
	uint32_t reserved;
	char text[FRAME_TEXT_MAX];
};

/* Shares of SMs are in thousandths of a percent. */
#define ACTIVE_THREADS_ALL 100000u

/* Whether a client's memory may leave GPUs while it is idle, and that of others for it. */
enum oversubscribe {
	OVERSUBSCRIBE_UNSET, /* no: no setting says so; of a group: what holds for the client */
	OVERSUBSCRIBE_NO,
	OVERSUBSCRIBE_YES,
};

/* The operator's limits for a client, or for all clients of a group together. */
struct frame_limits {
	uint32_t active_threads;         /* 1 to ACTIVE_THREADS_ALL */
	int32_t priority;                /* 0 normal, 1 below normal, 2 background */
	uint64_t memory[DEVICES_MAX];    /* bytes, by the server's ordinals; UINT64_MAX: no limit */
	uint64_t soft[DEVICES_MAX];      /* the same: more than that is borrowed */
	uint64_t partitioned;            /* a bit of each GPU: its SMs are those of `partition' */
	uint64_t partition[DEVICES_MAX]; /* chunks of each GPU, one bit each; 0: none */
	uint32_t oversubscribe;          /* enum oversubscribe */
	uint32_t probation_ms; /* of a client: its program is on probation; 0: it is not */
};

/* One descriptor: the client's connection, which the daemon accepted. */
struct frame_client {
	struct frame_head head;
	uint64_t id; /* unique in the life of the server, never 0 */
	uint64_t pid;
	uint32_t uid;
	uint32_t gid;
	uint32_t group;   /* the ID from FRAME_GROUP; 0: no group */
	uint32_t account; /* the UID of the account that the client's UID belongs to */
	/* The same of its cgroups with limits of memory, which count as those of its group; then 0.
	 */
	uint32_t cgroups[CGROUP_LEVELS_MAX];
	struct frame_limits limits; /* without the limits of its group */
	struct frame_hello hello;
};

#define GROUP_NAME_MAX 256

/*
 * The limits are for later clients of the group. The memory limit is for all its clients of all
 * servers together, so the server also needs a lease (FRAME_LEASE): at first it has none. A
 * server without a limit needs none.
 */
struct frame_group {
	struct frame_head head;
	uint32_t id;        /* never 0 */
	uint32_t is_cgroup; /* 1: it has only limits of memory, and is none of the operator's */
	struct frame_limits limits;
	char name[GROUP_NAME_MAX];
};

/*
 * By the server's ordinals, in bytes. FRAME_LEASE: `bytes' is how much the server's clients of
 * the group may have together, and `spare' is what no server uses of the limit.
 * FRAME_LEASE_WANT: `bytes' is what the lease lacks; `spare' is 1 to get the reply's. A
 * FRAME_LEASE_RETURN of the daemon has zeros; in that of a server, `bytes' is its lease now.
 */
struct frame_lease {
	struct frame_head head;
	uint32_t group;
	uint32_t is_reply; /* FRAME_LEASE: 1: to a FRAME_LEASE_WANT. Else 0 */
	uint64_t bytes[DEVICES_MAX];
	uint64_t spare[DEVICES_MAX];
};

struct frame_group_here {
	struct frame_head head;
	uint64_t lease[DEVICES_MAX]; /* bytes, by the server's ordinals */
	char name[GROUP_NAME_MAX];
};

struct frame_device {
	struct frame_head head;
	uint32_t ordinal;
	uint32_t n_devices;
	int32_t compute_mode; /* CUcomputemode */
	uint32_t n_sms;
	uint32_t sm_chunk; /* SMs of the smallest part that the driver divides into; 0: unknown */
	uint32_t n_chunks; /* parts of that size, at most 64; the remaining SMs follow as another
			      one */
	uint32_t reserved;
	uint32_t compute_capability; /* 10 * major + minor */
	uint64_t total_memory;
	uint8_t uuid[16];
	char pci_bus_id[32]; /* "0000:00:06.0" */
	char name[FRAME_TEXT_MAX];
};

/* The limits and the share of a client on a GPU, once it has a context there. */
struct frame_context {
	struct frame_head head;
	uint64_t client;
	uint32_t ordinal;
	uint32_t session; /* "Context ID" of log lines */
	uint32_t n_sms;   /* SMs that its kernels run on */
	int32_t priority;
	uint64_t memory; /* limit in bytes; UINT64_MAX: no limit */
};

/* FRAME_TERMINATE; with a result, FRAME_TERMINATED. */
struct frame_terminate {
	struct frame_head head;
	uint64_t client;
	uint32_t result; /* CUresult; 0: every later call of the client fails */
	uint32_t reserved;
};

/* How far the suspension of a client is. */
enum suspension {
	SUSPENSION_NONE,
	SUSPENSION_BEGUN, /* its messages are held; it has work on a GPU, or is in a call */
	SUSPENSION_AT_REST,
	SUSPENSION_BLOCKED, /* its messages are held; a stream waits, possibly for one of them */
	SUSPENSION_MAX = SUSPENSION_BLOCKED,
};

/*
 * FRAME_SUSPEND has the state SUSPENSION_NONE or SUSPENSION_BEGUN. FRAME_SUSPENDED repeats the
 * number of the last order. The server holds the state: a new daemon gets a FRAME_SUSPENDED for
 * each suspended client, behind its FRAME_CLIENT_HERE.
 */
struct frame_suspend {
	struct frame_head head;
	uint64_t client;
	uint32_t state;  /* enum suspension */
	uint32_t number; /* of the daemon's orders about this client */
};

/* One descriptor: an end of the socket pair between the server and its successor. */
struct frame_restart {
	struct frame_head head;
	uint32_t is_successor;
	uint32_t force;      /* 1: clients that cannot move end with the old server */
	uint64_t timeout_ms; /* for the clients' work to end */
};

/*
 * From a server that keeps its clients; or, behind a FRAME_CLIENT_HERE for each client, from the
 * successor that has them.
 */
struct frame_restarted {
	struct frame_head head;
	uint32_t is_done;
	uint32_t reserved;
	uint64_t pid;              /* of the client that could not move; 0: of none */
	char text[FRAME_TEXT_MAX]; /* why it could not */
};

/* One descriptor: a pidfd of the server, whose end the successor waits for. */
struct frame_move_begin {
	struct frame_head head;
	uint64_t move_hash; /* of the spec, and of what is sent when clients move */
	uint32_t version;
	uint32_t n_clients;
};

/* Descriptors: connection, ring, staging, page, and the file with the state of the session. */
#define FRAME_MOVE_CLIENT_FDS 5

struct frame_move_client {
	struct frame_head head;
	uint64_t size;              /* bytes of the state */
	uint32_t n_fds;             /* that follow */
	uint32_t session;           /* its ID */
	uint32_t is_suspended;      /* 1: it is */
	uint32_t suspend_number;    /* of the daemon's last order about that */
	uint64_t suspected_ms;      /* when it may have caused a fault, by now_ms(); 0: never */
	struct frame_client client; /* as the daemon sent it, about */
};

/* One descriptor or more. */
struct frame_move_fds {
	struct frame_head head;
};

enum move_step {
	MOVE_SENT = 1, /* by the server: everything */
	MOVE_RECEIVED, /* by the successor: everything, and nothing of it is wrong */
	MOVE_COMMIT,   /* by the server: from here on the sessions are the successor's */
	MOVE_REFUSED,  /* by the successor, which ends: it cannot take them */
};

#define MOVE_TEXT_MAX 96

struct frame_move_step {
	struct frame_head head;
	uint32_t step; /* enum move_step */
	uint32_t reserved;
	char text[MOVE_TEXT_MAX]; /* of MOVE_REFUSED: the reason */
};

/* One descriptor: the page. */
struct frame_page {
	struct frame_head head;
};

/* FRAME_CLIENT_HERE; with only the ID, FRAME_CLIENT_GONE. */
struct frame_client_note {
	struct frame_head head;
	uint64_t id;
	uint64_t pid;
	uint32_t uid;
	uint32_t program; /* from its HELLO, as is `command' */
	char command[FRAME_TEXT_MAX];
	uint64_t partition[DEVICES_MAX]; /* as in its limits */
	uint32_t probation_ms;           /* the same: what is left */
	uint32_t reserved;
	char group[GROUP_NAME_MAX]; /* empty: no group */
};

/* How the client that caused a fault was identified. */
enum fault_how {
	FAULT_SUSPECTS = 1, /* it was not: the clients that had work on a GPU */
	FAULT_ALONE,        /* only this client had work on a GPU */
	FAULT_ADDRESS,      /* the address lies in the client's VA windows */
	FAULT_OVERDUE,      /* the client's work continued after its end */
	FAULT_HOW_MAX = FAULT_OVERDUE,
};

#define FAULT_SUSPECTS_MAX 16
#define FAULT_DEVICE_UNKNOWN UINT32_MAX

/* A later fault of the same server replaces it. */
struct frame_fault {
	struct frame_head head;
	uint32_t result; /* CUresult, never 0 */
	uint32_t how;
	uint64_t address;                     /* 0: unknown */
	uint32_t ordinal;                     /* of the GPU, or FAULT_DEVICE_UNKNOWN */
	uint32_t n_suspects;                  /* including those for which `clients' has no space */
	uint64_t clients[FAULT_SUSPECTS_MAX]; /* IDs, then zeros; one ID if the client is known */
	char result_name[64];
	char kernel[FRAME_TEXT_MAX]; /* launched last by the known client; may be empty */
};

/* After the server's FRAME_FAULT. */
struct frame_fault_client {
	struct frame_head head;
	uint64_t client;
	uint32_t goes_on; /* 1: without the work that it had on the GPU; 0: it does not survive */
	uint32_t reserved;
	char why[MOVE_TEXT_MAX]; /* a clause of printable ASCII; empty if it goes on, only then */
};

struct frame_fault_address {
	struct frame_head head;
	uint64_t address; /* 0: the kernel's log cannot be read, no address will come */
	uint32_t ordinal; /* or FAULT_DEVICE_UNKNOWN */
	uint32_t reserved;
};

/*
 * The reply to a request has one for each client, and then one with the client 0. A client's
 * last one comes before FRAME_CLIENT_GONE. A request has zeros.
 */
struct frame_counters {
	struct frame_head head;
	uint64_t client;
	uint64_t counters[COUNTERS];
	uint64_t memory[DEVICES_MAX];      /* bytes in use, by the server's ordinals */
	uint64_t memory_peak[DEVICES_MAX]; /* the most that was ever in use */
	/* Of a background client: the SMs that its kernels use now; 0: of no such client. */
	uint32_t share_sms[DEVICES_MAX];
	/* Of another client, beside background clients: its time in thousandths; 0: not known. */
	uint32_t slowdown[DEVICES_MAX];
	uint64_t away[DEVICES_MAX]; /* bytes in use that are in the store, not on the GPU */
	uint32_t stay;              /* enum eviction_stay, of what had to leave and stayed */
	uint32_t reserved;
	/* Of the server, with the client 0: bytes in its store, and how many there may be. */
	uint64_t store_used, store_limit;
	char kernel[FRAME_TEXT_MAX]; /* launched last; may be empty */
	/* Why the client cannot move to another server, or MOVES_TEXT; empty: not known. */
	char restart[MOVE_TEXT_MAX];
};

#define MOVES_TEXT "yes"
#define MAY_STAY_TEXT "it may " /* how a reason begins that may not hold */

/* One descriptor: memory of TRACE_SIZE, which the server fills (trace_file.h). */
struct frame_trace {
	struct frame_head head;
	uint64_t id;  /* unique in the life of the daemon, never 0 */
	uint32_t uid; /* only clients of that user; UINT32_MAX: all */
	uint32_t reserved;
};

/* A server replies when its workers have written everything, or if it cannot begin. */
struct frame_trace_end {
	struct frame_head head;
	uint64_t id;
	uint64_t n_lost; /* events for which there was no space; a request has 0 */
};

struct frame_shutdown {
	struct frame_head head;
	uint32_t force; /* 1: end the clients' sessions now; 0: when the last client has left */
	uint32_t reserved;
};

/* One descriptor: the memory of a region of the host space. */
struct frame_memory {
	struct frame_head head;
	uint64_t address;
	uint64_t size;
};

/* One descriptor: the writing end of a pipe for the log of an adopted server. */
struct frame_output {
	struct frame_head head;
};

/* One descriptor: the connection of a client. */
struct frame_receive {
	struct frame_head head;
	uint64_t size; /* read at most so many bytes, at most RECEIVED_MAX */
};

#define RECEIVED_MAX 64

/* One descriptor, or none: a file in memory, or a device. */
struct frame_received {
	struct frame_head head;
	int32_t result;   /* 0 or -errno, as receiver_read() returns it */
	uint32_t n_bytes; /* read; more than 0 if the result is 0 */
	uint32_t kind;    /* enum fd_kind, of the descriptor */
	uint32_t reserved;
	uint8_t bytes[RECEIVED_MAX];
};

#define FRAME_MAX 4096 /* bytes of the largest frame; asserted in frame.c */
#define FRAME_FDS_MAX 8

/* Bytes of a frame of `type'; 0: no such type. */
size_t frame_size(unsigned type);

/* The head of a frame, for an initializer: it is the member `head' of each frame. */
struct frame_head frame_head(enum frame_type type, unsigned n_fds);

/* Sets the head of a zeroed frame. */
static inline void frame_init(void *frame, enum frame_type type, unsigned n_fds)
{
	*(struct frame_head *)frame = frame_head(type, n_fds);
}

/*
 * Sends a whole frame with its descriptors; waits for space up to `timeout_ms'.
 * -ETIMEDOUT, -EPIPE, -errno. After an error the connection is unusable, because it
 * may have part of a frame on it.
 */
int frame_send(int sock, const void *frame, const int *fds, int timeout_ms);

/*
 * Collects one frame from a stream socket. Owns the descriptors that it has read
 * until frame_take_fd(). `drop' closes the descriptors that are not taken:
 * frame_close_fd() if the other side is trusted, else async_close().
 */
struct frame_reader {
	void (*drop)(int fd);
	size_t n_read;
	unsigned n_fds;
	int fds[FRAME_FDS_MAX];
	union {
		struct frame_head head;
		_Alignas(8) uint8_t bytes[FRAME_MAX];
	};
};

void frame_reader_init(struct frame_reader *reader, void (*drop)(int fd));
void frame_close_fd(int fd);
void frame_reader_fini(struct frame_reader *reader);

/*
 * Reads without blocking, never past the frame's end. 1: `bytes' has a whole,
 * well-formed frame. 0: more is needed. -EBADMSG: malformed (type, size, number of
 * descriptors). -ECONNRESET: the peer has closed.
 */
int frame_read(struct frame_reader *reader, int sock);

/* The same, but waits for the frame up to `timeout_ms'. 0, -ETIMEDOUT or as above. */
int frame_read_wait(struct frame_reader *reader, int sock, int timeout_ms);

/* Transfers a descriptor to the caller. -EBADF if there is none. */
int frame_take_fd(struct frame_reader *reader, unsigned i);

/* Discards the frame, closes the descriptors that were not taken, and is ready for the next. */
void frame_reader_reset(struct frame_reader *reader);

/* Whether a string field has its NUL, and only zeros after it. */
bool frame_text_ok(const char *text, size_t size);

#endif
