# SPDX-License-Identifier: Apache-2.0
#
# Building and running the tests, the examples and the set-up; part of the Makefile.

# ---- unit tests: tests/unit/ROOM/test_X.c is $(BUILD)/tests/test_ROOM_X

UNIT_SRC := $(wildcard tests/unit/*/test_*.c)
unit_name = test_$(subst /test_,_,$(1:tests/unit/%.c=%))
UNIT := $(foreach s,$(UNIT_SRC),$(BUILD)/tests/$(call unit_name,$(s)))

# The files that a unit test is linked with: its unit_ line here, else only itself.
unit_test_proto_ring := proto/ring.c proto/shm.c
unit_test_proto_frame := proto/frame.c
unit_test_proto_disable := proto/disable.c
unit_test_proto_limit_text := proto/limit_text.c
unit_test_proto_async_close := proto/async_close.c
unit_test_proto_fd_kind := proto/fd_kind.c
unit_test_daemon_account := daemon/state/account.c daemon/text/process.c daemon/state/subordinate.c
unit_test_daemon_eviction := daemon/state/eviction.c
unit_test_daemon_amount := daemon/text/amount.c
unit_test_daemon_record := daemon/state/record.c
unit_test_daemon_state_text := $(filter-out daemon/main.c,$(DAEMON_SRC))
unit_test_daemon_tokenize := daemon/text/tokenize.c
unit_test_daemon_xid := daemon/text/xid.c
unit_test_daemon_json := daemon/text/json.c proto/quote.c
unit_test_daemon_exposition := daemon/text/exposition.c proto/quote.c
unit_test_daemon_metrics := daemon/watch/metrics.c daemon/watch/metrics_write.c daemon/text/exposition.c daemon/config/devices.c \
	proto/device_name.c proto/frame.c proto/quote.c
unit_test_daemon_trace_text := daemon/watch/trace_text.c daemon/text/json.c proto/quote.c
unit_libs_test_daemon_json := $(call static,jansson)
unit_libs_test_daemon_trace_text := $(call static,jansson)
unit_test_daemon_usage := daemon/state/usage.c
unit_test_daemon_escape := daemon/text/escape.c proto/quote.c
unit_test_daemon_settings := daemon/config/settings.c daemon/config/devices.c daemon/text/group_name.c daemon/text/tokenize.c daemon/text/error_message.c \
	proto/device_name.c proto/frame.c proto/limit_text.c
unit_test_daemon_rate_limit := daemon/text/rate_limit.c
unit_test_daemon_line_buffer := daemon/text/line_buffer.c proto/quote.c
unit_test_proto_quote := proto/quote.c
unit_test_server_log := server/util/log.c
unit_test_server_number := server/util/number.c server/util/log.c
unit_test_daemon_line_limit := daemon/text/line_limit.c daemon/text/rate_limit.c
unit_test_daemon_log_file := daemon/log/log_file.c daemon/log/log_move.c daemon/log/journald.c daemon/text/directory.c daemon/text/line_buffer.c daemon/text/error_message.c \
	proto/quote.c
CONFIG := daemon/config/config.c daemon/config/config_environment.c daemon/config/metrics_address.c daemon/text/tokenize.c daemon/text/error_message.c \
	proto/device_name.c proto/frame.c
unit_test_daemon_config := $(CONFIG)
CONFIG_FILE := $(CONFIG) daemon/config/config_file.c daemon/config/config_report.c daemon/config/config_text.c daemon/text/ini.c \
	daemon/text/nearest.c daemon/config/settings.c daemon/config/devices.c daemon/text/group_name.c daemon/text/line_buffer.c \
	proto/limit_text.c proto/quote.c
unit_test_daemon_config_file := $(CONFIG_FILE)
unit_test_daemon_ini := daemon/text/ini.c
unit_test_daemon_nearest := daemon/text/nearest.c
unit_test_daemon_settings_layers := daemon/config/settings_layers.c daemon/config/settings.c daemon/config/devices.c daemon/text/tokenize.c \
	daemon/text/error_message.c proto/device_name.c proto/frame.c proto/limit_text.c
unit_test_daemon_top_history := daemon/top/top_history.c
unit_test_daemon_top_options := daemon/top/top_options.c daemon/text/tokenize.c daemon/text/error_message.c
TOP_TEXT := daemon/top/top_text.c proto/quote.c
unit_test_daemon_top_text := $(TOP_TEXT)
unit_test_daemon_top_column := daemon/top/top_column.c daemon/top/top_history.c daemon/text/amount.c $(TOP_TEXT)
unit_test_daemon_top_view := daemon/top/top_view.c $(unit_test_daemon_top_column)
unit_test_daemon_top_sample := daemon/top/top_sample.c
unit_libs_test_daemon_top_sample := $(call static,jansson)
unit_test_daemon_top_table := daemon/top/top_table.c daemon/top/top_sample.c daemon/top/top_history.c
unit_libs_test_daemon_top_table := $(call static,jansson)
unit_test_proto_shm := proto/shm.c
unit_test_proto_yielder :=
# The server without its loop, over the counting driver, for its tests and fuzzers.
SERVER_CORE := $(filter-out server/main.c server/server.c server/control.c server/client_conn.c \
	server/newcomers.c server/util/privileges.c server/sharer.c server/terminate.c \
	server/fault_report.c server/counter_report.c server/trace_control.c server/group_link.c server/session/receiver.c \
	server/session/receiver_process.c,$(SERVER_SRC)) $(GEN)/send.c \
	$(addprefix tests/fuzz/fake_,cuda.c array.c memory.c work.c graph.c green.c link.c receiver.c)
# The accounts of sessions, alone.
ACCOUNT := server/util/account.c server/util/resource.c server/util/quota.c server/util/machine_memory.c server/util/number.c server/util/log.c
unit_test_server_account := $(ACCOUNT)
unit_libs_test_server_account := -Wl,--wrap=calloc,--wrap=reallocarray
unit_test_server_resource := $(ACCOUNT) server/sharer.c
unit_test_server_machine_memory := server/util/machine_memory.c
unit_test_server_tables := $(ACCOUNT) server/util/bitmap.c server/util/handle_table.c server/driver/owner.c server/util/ranges.c
unit_test_server_sigbus_guard := server/util/sigbus_guard.c server/util/thread.c
unit_test_server_receiver := $(addprefix server/session/,receiver.c receiver_process.c received.c) \
	proto/frame.c proto/fd_kind.c
unit_test_server_frame_queue := server/frame_queue.c proto/frame.c
unit_libs_test_server_frame_queue := -Wl,--wrap=realloc
unit_test_server_newcomers := server/newcomers.c
unit_libs_test_daemon_state_text := $(LIBUV) $(TOP_LIBS)
unit_libs_test_server_newcomers := $(LIBUV)
unit_test_server_image := $(ACCOUNT) server/util/image.c proto/shm.c
unit_test_server_cubin := server/module/cubin.c
unit_test_server_arena := $(filter-out $(GEN)/send.c,$(SERVER_CORE))
unit_test_server_session := $(SERVER_CORE) tests/fuzz/session_harness.c
unit_test_server_host := $(unit_test_server_session)
unit_test_server_progress := $(unit_test_server_session)
unit_test_server_cu_limit := $(unit_test_server_session)
unit_test_server_bounds := $(unit_test_server_session)
unit_test_server_memory := $(unit_test_server_session)
unit_test_server_group := $(unit_test_server_session)
unit_test_server_ptx_variables := server/module/ptx_variables.c
unit_test_server_priority := server/driver/priority.c
unit_test_server_blocked_streams := $(unit_test_server_session)
unit_test_server_channel_budget := $(unit_test_server_session)
unit_test_server_alias := $(unit_test_server_session)
unit_test_server_ipc := $(unit_test_server_session)
unit_test_server_virtual := $(unit_test_server_session)
unit_test_server_array := $(unit_test_server_session)
unit_test_server_linker := $(unit_test_server_session)
unit_test_server_managed := $(unit_test_server_session)
unit_test_server_sm_loads := server/driver/sm_loads.c
unit_test_server_sm_share := $(unit_test_server_session)
unit_test_server_context_share := $(unit_test_server_session)
unit_test_server_conditional := $(unit_test_server_session)
unit_test_server_programmatic := $(unit_test_server_session)
unit_test_server_green := $(unit_test_server_session)
unit_test_server_launch_batch := $(unit_test_server_session)
unit_test_server_background := $(unit_test_server_session)
unit_test_server_quiet := $(unit_test_server_session)
unit_test_server_printf_capture := $(unit_test_server_session)
unit_test_server_tracer := $(unit_test_server_session)
unit_test_server_deferred := $(unit_test_server_session)
unit_libs_test_server_deferred := -Wl,--wrap=malloc_trim
unit_test_server_alloc := $(unit_test_server_session)
unit_libs_test_server_alloc := -Wl,--wrap=malloc,--wrap=calloc,--wrap=reallocarray
unit_test_proto_procs := $(GEN)/procs.c
unit_test_proto_find_cuda := proto/find_cuda.c
unit_test_client_uncached_copy := client/util/uncached_copy.c
unit_test_client_md2 := client/util/md2.c
# The client's log.
LOG := client/util/log.c client/util/logs.c client/util/descriptor.c client/util/quiet.c
unit_test_client_share := client/context/share.c $(LOG) proto/limit_text.c
unit_test_client_storage := client/context/storage.c
unit_test_client_visible := client/context/visible.c
unit_test_client_memory_limit := client/context/memory_limit.c client/context/visible.c proto/limit_text.c
unit_test_client_address_map := client/memory/address_map.c client/util/slab.c
unit_test_client_host := client/memory/host.c $(LOG)
unit_test_client_heap := client/memory/heap.c
unit_test_client_advice := client/memory/advice.c
unit_test_client_logs := $(filter-out client/util/log.c,$(LOG))
unit_test_client_image := client/module/image.c
unit_test_client_mapping := client/util/mapping.c
unit_test_client_host_map := client/util/host_map.c client/util/descriptor.c client/util/quiet.c proto/shm.c
unit_test_client_exchange := client/memory/exchange.c client/util/stop_threads.c \
	client/util/sleep.c client/util/mapping.c client/util/quiet.c proto/disable.c proto/shm.c
unit_libs_test_client_exchange := -Wl,--wrap=syscall -pthread
unit_libs_test_client_mapping := -Wl,--wrap=madvise
unit_test_client_graph_lowering := client/graph/graph_lowering.c
unit_test_client_staging := client/stream/staging.c client/stream/timeline.c client/util/sleep.c client/util/worker_pool.c client/util/thread.c \
	proto/ring.c
unit_test_client_timeline := client/stream/timeline.c client/util/sleep.c
unit_test_client_context := client/entry/hooks.c client/context/context.c client/context/context_share.c client/context/current.c client/context/primary.c \
	client/context/context_calls.c client/context/limit.c client/context/storage.c $(LOG) client/context/coredump.c
unit_test_client_trace := client/transport/trace.c $(LOG) $(GEN)/wire.c
unit_test_proto_wire := $(addprefix $(GEN)/,test_rules.c send.c dispatch.c wire.c)
PTX := $(wildcard tests/softgpu/ptx/*.c tests/softgpu/ptx/*/*.c)
$(foreach t,ptx ptx_exec ptx_load ptx_matrix ptx_texture,$(eval unit_test_softgpu_$(t) := $(PTX)))
unit_test_server_fatbin := server/module/fatbin.c tests/softgpu/ptx/parse/fatbin.c

define unit_test
$(BUILD)/tests/$(1): $(call objects,test,$(2) $(unit_$(1)))
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_LDFLAGS) -o $$@ $$^ $(unit_libs_$(1)) $(if $(findstring /fatbin.c,$(unit_$(1))),-llz4 -lzstd) -lcmocka -ldl -lm
endef
$(foreach s,$(UNIT_SRC),$(eval $(call unit_test,$(call unit_name,$(s)),$(s))))

# ---- fuzzers: test_fuzz_X replays tests/fuzz/corpus/X, and seeds that are made from the spec;
# `make fuzz' searches for more with libFuzzer, FUZZ_SECONDS each, and keeps the results under
# $(BUILD)/fuzz

FUZZ := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_SECONDS ?= 60
fuzz_src = tests/fuzz/fuzz_$(1).c $(or $(fuzz_of_$(1)),$(unit_test_server_session))
# The files that the other fuzzers are linked with.
fuzz_of_frame := proto/frame.c
fuzz_of_tokenize := daemon/text/line_buffer.c daemon/text/tokenize.c proto/quote.c
fuzz_of_config := $(CONFIG_FILE)
fuzz_of_xid := daemon/text/xid.c
# The daemon without its calls of the system.
fuzz_of_daemon := $(filter-out daemon/main.c daemon/cli/% daemon/top/% daemon/text/process.c daemon/state/record.c \
	daemon/server/spawn.c proto/async_close.c,$(DAEMON_SRC)) tests/fuzz/fake_system.c
fuzz_libs_daemon := $(LIBUV) $(call static,jansson) -Wl,--wrap=uv_queue_work
fuzz_of_state := $(filter-out daemon/main.c,$(DAEMON_SRC))
fuzz_libs_state := $(LIBUV) $(TOP_LIBS)

define fuzz_replay
$(BUILD)/tests/test_fuzz_$(1): $(call objects,test,tests/fuzz/replay.c $(call fuzz_src,$(1)))
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_LDFLAGS) -o $$@ $$^ $(fuzz_libs_$(1)) -llz4 -lzstd -ldl
$(BUILD)/fuzz/fuzz_$(1): $(call fuzz_src,$(1)) $(wildcard daemon/*/*.h server/*.h server/*/*.h include/*.h) | $(GEN)/.stamp
	@mkdir -p $$(@D)
	clang $$(filter-out -MMD -MP,$$(ALL_CFLAGS)) -fsanitize=address,undefined,fuzzer \
		-iquote . -o $$@ $$(filter %.c,$$^) $(fuzz_libs_$(1)) -llz4 -lzstd -ldl
endef
$(foreach f,$(FUZZ),$(eval $(call fuzz_replay,$(f))))
$(FUZZ:%=$(BUILD)/tests/test_fuzz_%): | $(BUILD)/fuzz/seeds/.stamp

$(BUILD)/fuzz/seeds/.stamp: tests/fuzz/seeds.py tests/fuzz/fuzz_daemon.c proto/cuda.spec $(WIRE) \
		$(wildcard daemon/command/*.c) tests/system/wire.py tests/system/operator_lines.py \
		$(wildcard tests/fuzz/hostile/*.py) | $(GEN)/.stamp
	CC=$(CC) $(PYTHON) tests/fuzz/seeds.py $(@D)
	@touch $@

UNIT += $(FUZZ:%=$(BUILD)/tests/test_fuzz_%)

.PHONY: fuzz
fuzz: $(FUZZ:%=$(BUILD)/fuzz/fuzz_%) $(BUILD)/fuzz/seeds/.stamp
	for f in $(FUZZ); do mkdir -p $(BUILD)/fuzz/$$f $(BUILD)/fuzz/seeds/$$f; \
		$(BUILD)/fuzz/fuzz_$$f -close_fd_mask=2 -max_len=8192 -timeout=20 \
		-max_total_time=$(FUZZ_SECONDS) $(BUILD)/fuzz/$$f tests/fuzz/corpus/$$f \
		$(BUILD)/fuzz/seeds/$$f || exit 1; done
	@$(MAKE) --no-print-directory SAN=address,undefined fuzz-clients

# Whole processes with a real service (tests/fuzz/clients).
.PHONY: fuzz-clients
fuzz-clients: all softgpu examples
	MPS_BUILD=$(abspath $(BUILD)) MPS_SAN=$(SAN) CC=$(CC) tests/fuzz/clients \
		--seconds $(FUZZ_SECONDS) $(if $(FUZZ_SEED),--seed $(FUZZ_SEED))

# tests/run takes every program there, so a program with an old name is removed.
.PHONY: unit
unit: $(UNIT)
	@rm -f $(filter-out $(UNIT),$(wildcard $(BUILD)/tests/test_*))

# ---- the library that makes libc's functions fail, preloaded by tests/fault

BREAK := $(BUILD)/fault/libbreak.so

$(BREAK): tests/fault/break.c
	@mkdir -p $(@D)
	$(CC) -std=gnu17 -D_GNU_SOURCE $(WARN) $(WERROR) -O2 -g -fPIC -fno-builtin -shared \
		-fvisibility=hidden -o $@ $< -ldl

# ---- example programs: unmodified CUDA, nvcc's default flags, static runtime.
# tests/programs/FOLDER/X is $(BUILD)/bin/examples/X. Lines of its opening comment state exceptions:
# `Runs: on a GPU' (uses NVIDIA's libraries, which need not be installed; built by
# `make gpu-examples'), `Runs: for a test of its own', `Builds with: FLAGS', `Needs: Open MPI'
# (built if it is installed; MPI has what nvcc needs for it)

PROGRAM_SRC := $(wildcard $(addprefix tests/programs/,runtime/*.cu driver_api/*.c gpu_only/*.cu))
MPICC := $(shell command -v mpicc)
MPI_DIRS := $(if $(MPICC),$(shell $(MPICC) --showme:incdirs 2>/dev/null))
# The compiler's wrapper may exist without the headers.
MPI := $(if $(wildcard $(MPI_DIRS:%=%/mpi.h)),$(MPI_DIRS:%=-I%) \
	$(patsubst %,-L%,$(shell $(MPICC) --showme:libdirs)) -lmpi)
MPI_ONLY := $(shell grep -ls '^ \* Needs: Open MPI' $(PROGRAM_SRC))
GPU_ONLY := $(shell grep -ls '^ \* Runs: on a GPU' $(PROGRAM_SRC))
example = $(addprefix $(BUILD)/bin/examples/,$(basename $(notdir $(1))))
EXAMPLES := $(call example,$(filter-out $(GPU_ONLY) $(if $(MPI),,$(MPI_ONLY)),$(PROGRAM_SRC)))
built_with = $(shell sed -n 's/^ \* Builds with: //p' $(1))

define nvcc_program
$(BUILD)/bin/examples/%: tests/programs/$(1)/%.cu $(wildcard tests/programs/helpers/*)
	@mkdir -p $$(@D)
	$$(NVCC) -o $$@ $$< $$(call built_with,$$<) $$(if $$(filter $$<,$$(MPI_ONLY)),$$(MPI))
endef
$(eval $(call nvcc_program,runtime))
$(eval $(call nvcc_program,gpu_only))

# Of the driver API: the client library replaces the toolkit's stub, which its wheels lack.
$(BUILD)/bin/examples/%: tests/programs/driver_api/%.c $(BUILD)/lib/libcuda.so.1 $(wildcard tests/programs/helpers/*)
	@mkdir -p $(@D)
	$(CC) -O2 -isystem $(CUDA_HOME)/include -o $@ $< \
		$(BUILD)/lib/libcuda.so.1 -Wl,--allow-shlib-undefined $(call built_with,$<)

# Programs contain nothing of this project: other builds use those of the plain build.
.PHONY: examples
ifeq ($(SAN)$(COVERAGE),)
examples: $(EXAMPLES)
else
examples:
	@$(MAKE) --no-print-directory SAN= COVERAGE= BUILD=build examples
	@mkdir -p $(BUILD)/bin
	ln -sfn ../../build/bin/examples $(BUILD)/bin/examples
endif

.PHONY: gpu-examples
gpu-examples: examples $(call example,$(GPU_ONLY))

# ---- the matrix of contexts: each driver call without its context (tests/system/test_contexts.py)

CONTEXTS := $(BUILD)/bin/contexts

$(GEN)/context_calls.c: tests/contexts/generate.py $(GEN)/.stamp
	$(PYTHON) $< --spec proto/cuda.spec --headers $(CUDA_HOME)/include --out $@
	@touch $@

$(CONTEXTS): $(call objects,test,$(wildcard tests/contexts/*.c) $(GEN)/context_calls.c $(GEN)/cuda_api.c)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -ldl

# ---- the speed of the software GPU; BENCH_LIBRARIES="OLD NEW" compares two builds

BENCH_LIBRARIES ?= $(SOFTGPU)
BENCH := $(BUILD)/bin/softgpu-bench

$(BENCH): tests/softgpu/bench/bench.cu
	@mkdir -p $(@D)
	$(NVCC) -o $@ $<
	$(NVCC) -ptx -o $@.ptx $<

.PHONY: bench-softgpu
bench-softgpu: $(SOFTGPU) $(BENCH)
	tests/softgpu/bench/run $(BENCH) $(BENCH).ptx $(BENCH_LIBRARIES)

# ---- the speed of the service beside native programs and the vendor's MPS; BENCH_ARGS are those of
# tests/bench/run

.PHONY: bench
bench: all softgpu examples
	MPS_BUILD=$(abspath $(BUILD)) tests/bench/run $(BENCH_ARGS)

# ---- everything at once, each after its set-up: a second make sees what the set-up installed

# All processors, unless the caller has set a number.
JOBS = $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))

.PHONY: setup demo check everything
setup:
	@tests/setup

everything: all softgpu examples unit $(BREAK) $(CONTEXTS)

demo: setup
	@echo "Building in $(BUILD) ..."
	@$(MAKE) --no-print-directory -s $(JOBS) all softgpu examples
	@MPS_BUILD=$(abspath $(BUILD)) tests/demo

# Tests at a time. Many of them wait: two leave a third of two processors idle.
TEST_JOBS ?= 3

check: setup
	@echo "Building in $(BUILD) ..."
	@$(MAKE) --no-print-directory -s $(JOBS) everything
	@MPS_BUILD=$(abspath $(BUILD)) MPS_SAN=$(SAN) CC=$(CC) tests/run --jobs $(TEST_JOBS) $(TESTS)

# Hostile programs for minutes: kills by the thousand, floods by strangers.
.PHONY: check-hostile
check-hostile: setup
	@$(MAKE) --no-print-directory -s $(JOBS) all softgpu examples
	@MPS_BUILD=$(abspath $(BUILD)) MPS_SAN=$(SAN) CC=$(CC) tests/run --folder tests/hostile $(TESTS)

# Test suites of other projects, natively and as clients: SUITES="numba warp" chooses, SHORT=1 takes a
# few modules of each.
SUITES ?=
SUITES_JOBS ?= 1

.PHONY: suites
suites:
	@tests/setup --suites
	@$(MAKE) --no-print-directory -s $(JOBS) all softgpu
	@MPS_BUILD=$(abspath $(BUILD)) CC=$(CC) tests/suites/run --jobs $(SUITES_JOBS) \
		$(if $(SHORT),--short) $(SUITES)

# What needs a large installation: packages in a fresh root of Debian, and clusters. SHORT=1: a
# minute, after a smaller installation.
.PHONY: check-cluster
check-cluster:
	@tests/setup --cluster$(if $(SHORT),-short)
	@$(MAKE) --no-print-directory -s $(JOBS) all softgpu examples
	@MPS_BUILD=$(abspath $(BUILD)) CC=$(CC) tests/run --folder tests/cluster \
		$(or $(TESTS),$(if $(SHORT),test_prometheus test_slurm))

# Everything at random, for any length of time.
SOAK_SECONDS ?= 3600

.PHONY: soak
soak: setup
	@$(MAKE) --no-print-directory -s $(JOBS) all softgpu examples
	@MPS_BUILD=$(abspath $(BUILD)) MPS_SAN=$(SAN) CC=$(CC) tests/soak --seconds $(SOAK_SECONDS)

# ---- which lines of server and daemon the fuzzers reach; COVERAGE_ARGS are tests/coverage's

COVERAGE_SECONDS ?= 300

.PHONY: coverage corpus
corpus: $(FUZZ:%=$(BUILD)/tests/test_fuzz_%)

coverage: setup
	@$(MAKE) --no-print-directory -s $(JOBS) COVERAGE=1 all softgpu examples corpus
	@CC=$(CC) tests/coverage --seconds $(COVERAGE_SECONDS) $(COVERAGE_ARGS)

# ---- install: the library goes into a folder that ldconfig never scans, or ldconfig would link the
# machine's libcuda.so.1 to it

LIBDIR := $(DESTDIR)$(PREFIX)/lib/mps
SHARE := $(DESTDIR)$(PREFIX)/share
MANDIR := $(SHARE)/man
MANUAL := $(wildcard docs/man/*)

# Empty: without links by NVIDIA's names.
VENDOR_NAMES ?= yes
PIPE_DIRECTORY = $(shell sed -n 's/^.define PIPE_DIRECTORY_DEFAULT "\(.*\)"/\1/p' include/bounds.h)

.PHONY: install
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(LIBDIR) $(DESTDIR)$(PREFIX)/lib/systemd/system \
		$(DESTDIR)$(PREFIX)/lib/tmpfiles.d $(DESTDIR)$(PREFIX)/lib/sysusers.d \
		$(SHARE)/doc/mps $(SHARE)/mps/fleet $(SHARE)/pkgconfig $(SHARE)/bash-completion/completions \
		$(SHARE)/zsh/site-functions $(patsubst .%,$(MANDIR)/man%,$(sort $(suffix $(MANUAL))))
	install $(PROGRAMS) $(BUILD)/bin/mps-run $(DESTDIR)$(PREFIX)/bin
	$(if $(VENDOR_NAMES),daemon/dist/install-names "$(DESTDIR)" "$(PREFIX)/bin")
	install -m 644 $(LIBRARY) $(LIBDIR)
	install $(CHECK) $(LIBDIR)
	ln -sf libmpsclient.so $(LIBDIR)/libcuda.so.1
	ln -sf libmpsclient.so $(LIBDIR)/libcuda.so
	for unit in service socket; do \
		sed 's|@BINDIR@|$(PREFIX)/bin|' daemon/dist/mps-control.$$unit \
			>$(DESTDIR)$(PREFIX)/lib/systemd/system/mps-control.$$unit || exit 1; done
	install -m 644 daemon/dist/mps-control.tmpfiles $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/mps-control.conf
	install -m 644 daemon/dist/mps-control.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/mps-control.conf
	install -m 644 README.md LICENSE daemon/dist/mps.conf $(wildcard docs/*.*) $(SHARE)/doc/mps
	install -m 644 $(wildcard docs/fleet/*) $(SHARE)/mps/fleet
	cp -R docs/clusters docs/kubernetes $(SHARE)/doc/mps
	for page in $(MANUAL); do install -m 644 $$page $(MANDIR)/man$${page##*.} || exit 1; done
	sed 's|@VERSION@|$(VERSION)|; s|@PIPE_DIRECTORY@|$(PIPE_DIRECTORY)|' daemon/dist/mps.pc.in \
		>$(SHARE)/pkgconfig/mps.pc
	install -m 644 daemon/dist/completion/mps-control.bash $(SHARE)/bash-completion/completions/mps-control
	install -m 644 daemon/dist/completion/mps-run.bash $(SHARE)/bash-completion/completions/mps-run
	install -m 644 daemon/dist/completion/_mps-control daemon/dist/completion/_mps-run $(SHARE)/zsh/site-functions

# NVIDIA's names in a separate folder, for where `install' omits them.
COMPATDIR ?= $(PREFIX)/lib/mps/compat

.PHONY: install-compat
install-compat:
	daemon/dist/install-names "$(DESTDIR)" "$(PREFIX)/bin" "$(abspath $(COMPATDIR))"

# ---- lint

.PHONY: lint
lint: all
	@CUDA_HOME=$(CUDA_HOME) GEN=$(GEN) MPS_BUILD=$(abspath $(BUILD)) tests/lint
