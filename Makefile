# make demo: a real 8-rank job, live.  make test: lint, types, import directions, all tests.
PYTHON ?= python3
TORCH  ?= torch==2.13.0
# Parallel test processes. Four suit two cores: tests mostly wait for jobs, servers and pages.
WORKERS ?= 4
# A test that takes longer has hung: it fails, with the stacks of all its threads, and the run goes on.
HUNG   := --timeout 600
FAULT  ?= slow-rank=5,x=1.6,from=8
VENV   := .venv
BIN    := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Some container images set this; every test process would then compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

# tools in an environment of their own
TOOLS  := $(VENV)/tools
REQUIREMENTS := requirements.txt
DIST   := dist

GPU_VENV := .venv-gpu
GPU_PYTHON ?= 3.12
GPU_PLATFORMS := manylinux_2_28_x86_64 manylinux_2_27_x86_64 manylinux_2_17_x86_64 manylinux2014_x86_64
GPU_TESTS := tests/trace_hooks/recording/cuda/test_cuda_clock.py tests/trace_hooks/recording/test_drain_batches.py \
	tests/trace_hooks/recording/cuda/test_drain_device.py

FRAMEWORKS_VENV := .venv-frameworks

SPARK_VENV := .venv-spark

S3_VENV := .venv-s3

.PHONY: demo test test-frameworks test-s3 test-spark pytest browser test-long test-kill test-faults test-sql test-registry fuzz lint bench gpu gpu-wheels bench-accuracy bench-dashboards bench-dealing bench-first-cause bench-fleet bench-host-faults bench-loaders bench-machines bench-mfu bench-pipeline-memory bench-real-faults bench-replay-fidelity bench-scale bench-schedules bench-slow-kernels bench-startups bench-stuck samples requirements sbom clean

# CPU torch first: once it is installed, no later requirement pulls in a CUDA build
$(VENV)/.torch: Makefile
	$(PYTHON) -m venv $(VENV) || { echo "make: $(PYTHON) has no venv module (Debian: apt-get install python3-venv)"; exit 1; }
	$(BIN)/pip install --quiet --no-compile -c constraints.txt numpy "$(TORCH)"
	touch $@

# Compile on all cores (pip uses one); errors are ignored, some packages have files for other Pythons
$(VENV)/.ready: $(VENV)/.torch pyproject.toml trace_hooks/pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --no-compile -c constraints.txt -e ./trace_hooks -e ".[dev]"
	$(BIN)/python -W ignore -m compileall -qq -j 0 $(CURDIR)/$(VENV)/lib || true
	touch $@

demo: $(VENV)/.ready
	$(BIN)/rankscope demo --fault "$(FAULT)"

test:
	$(MAKE) --no-print-directory -j2 lint pytest

pytest: $(VENV)/.ready browser
	$(BIN)/python -m pytest -q -m "not faults and not registry and not long and not s3 and not spark" $(HUNG) \
		-n $(WORKERS) --dist loadfile --no-loadscope-reorder

browser:
	tests/browser/install_chromium.sh

# what takes long and is seldom broken by a change, and all cases of tests of which others run some
test-long: $(VENV)/.ready browser
	RANKSCOPE_TEST_ALL=1 $(BIN)/python -m pytest -q $(HUNG) -n $(WORKERS) --dist loadfile \
		-m "(long or sampled) and not faults and not registry"
	RANKSCOPE_TEST_ALL=1 $(BIN)/python -m pytest -q tests/hostile/requests

test-kill: $(VENV)/.ready
	KILL_ROUNDS=20 $(BIN)/python -m pytest -q -m kill

# 20,000 SQL statements against all layers together, then against each alone; SEED=n repeats a run
test-sql: $(VENV)/.ready
	for layers in all tree connection kernel; do \
		$(BIN)/python -m tests.hostile.sql --n 20000 --layers $$layers $(if $(SEED),--seed $(SEED)) || exit 1; \
	done

# What pip finds at a package registry for each supported Python and machine; after a change of versions
test-registry: $(VENV)/.ready
	$(BIN)/python -m pytest -q -m registry

# Callbacks and small real jobs of training frameworks, with and without hooks, in an environment of
# their own; some 20 minutes on two cores. ONLY="ddp hf" runs some; WRITE=1 puts the matrix into its
# page, and goes on where FRAMEWORKS_RESULTS ended
FRAMEWORKS_RESULTS ?= benchmarks/results/frameworks.jsonl
test-frameworks: $(VENV)/.ready $(FRAMEWORKS_VENV)/.ready
	$(FRAMEWORKS_VENV)/bin/python -m pytest -q $(HUNG) tests/trace_hooks/integrations tests/trace_hooks/test_transformers.py
	$(BIN)/python -m benchmarks.frameworks --python $(FRAMEWORKS_VENV)/bin/python $(if $(ONLY),--only $(ONLY)) \
		$(if $(WRITE),--results $(FRAMEWORKS_RESULTS) --write docs/frameworks.md)

# torch first, as above; DeepSpeed looks for it when it is built, and builds no operators
$(FRAMEWORKS_VENV)/.ready: benchmarks/frameworks/requirements.txt
	$(PYTHON) -m venv $(FRAMEWORKS_VENV)
	$(FRAMEWORKS_VENV)/bin/pip install --quiet --no-compile numpy setuptools wheel "$(TORCH)"
	DS_BUILD_OPS=0 $(FRAMEWORKS_VENV)/bin/pip install --quiet --no-compile --no-build-isolation -r $<
	# it asks for an older datasets than TRL does, and its job reads no data set
	$(FRAMEWORKS_VENV)/bin/pip install --quiet --no-compile --no-deps torchtitan==0.3.0
	touch $@

# A Spark cluster on loopback (a master and two workers, some 2 GB) indexes runs as DuckDB does, and loses
# workers in the middle; in an environment of its own. KILL_ROUNDS=n kills as many workers
test-spark: $(SPARK_VENV)/.ready
	tests/ingest/spark/install_java.sh
	KILL_ROUNDS=$(or $(KILL_ROUNDS),3) $(SPARK_VENV)/bin/python -m pytest -q --timeout 1800 -m spark tests/ingest/spark

$(SPARK_VENV)/.ready: tests/ingest/spark/requirements.txt pyproject.toml trace_hooks/pyproject.toml
	$(PYTHON) -m venv $(SPARK_VENV)
	$(SPARK_VENV)/bin/pip install --quiet --no-compile -r $< -e ./trace_hooks -e ".[spark]"
	touch $@

# Runs in S3-compatible storage: a server that speaks S3 on loopback, in an environment of its own, which
# answers slowly, late, in part or not at all; two minutes
test-s3: $(VENV)/.ready $(S3_VENV)/.ready
	$(BIN)/python -m pytest -q $(HUNG) -m s3 tests/ingest/object_store/s3

$(S3_VENV)/.ready: tests/ingest/object_store/s3/requirements.txt
	$(PYTHON) -m venv $(S3_VENV)
	$(S3_VENV)/bin/pip install --quiet --no-compile -r $<
	touch $@

# test-kill, and also clocks that jump, full disks, thousands of uploads and of episodes
test-faults: $(VENV)/.ready
	KILL_ROUNDS=20 $(BIN)/python -m pytest -q -m "kill or faults"

# 1,000 mutated files of each format; SEED=n repeats a run; POOL=1 reads many at once, as imports do
fuzz: $(VENV)/.ready
	$(BIN)/python -m tests.hostile.fuzz $(if $(SEED),--seed $(SEED)) $(if $(POOL),--pool)

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(VENV)/.ready
	$(BIN)/python benchmarks/hook_overhead.py

# What only a CUDA device can show (docs/gpu.md); without one every part is skipped. PARTS=a,e runs
# some of them. WHEELS=folder: without network, with the machine's own torch.
gpu: $(if $(WHEELS),$(GPU_VENV)/.ready,$(VENV)/.ready)
	PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 $(if $(WHEELS),$(GPU_VENV)/bin,$(BIN))/python -m pytest -q $(GPU_TESTS)
	$(if $(WHEELS),$(GPU_VENV)/bin,$(BIN))/python -m benchmarks.gpu $(if $(PARTS),--only $(PARTS))

# GPU_PYTHON: Python version of the GPU machine. WITH_TORCH=1: also download torch, if it has none
gpu-wheels:
	$(PYTHON) -m pip download --quiet --only-binary=:all: --python-version $(GPU_PYTHON) \
		$(addprefix --platform ,$(GPU_PLATFORMS)) -c constraints.txt -d wheels \
		-r benchmarks/gpu/requirements.txt $(if $(WITH_TORCH),"$(TORCH)")

$(GPU_VENV)/.ready: benchmarks/gpu/requirements.txt
	$(PYTHON) -m venv --system-site-packages $(GPU_VENV)
	$(GPU_VENV)/bin/pip install --quiet --no-index --find-links $(WHEELS) -r $<
	$(GPU_VENV)/bin/python -c "import torch" || \
		$(GPU_VENV)/bin/pip install --quiet --no-index --find-links $(WHEELS) torch
	touch $@

# labelled jobs with new seeds, other tools in separate environments; SEED=n repeats a run.
# RESUME=file goes on where an earlier run stopped, MINUTES=n limits this one, NOISE=folder has recordings
bench-accuracy: $(VENV)/.ready
	$(BIN)/python -m benchmarks.accuracy --write docs/accuracy.md $(if $(SEED),--seed $(SEED)) \
		$(if $(RESUME),--resume $(RESUME)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(NOISE),--noise $(NOISE))

# generated logs of failed jobs with a new seed, 1.5 s each; SEED=n repeats a run
bench-first-cause: $(VENV)/.ready
	$(BIN)/python -m benchmarks.first_cause --write docs/accuracy-first-cause.md $(if $(SEED),--seed $(SEED))

# faulty machines by their metrics, and four rivals: about 12 minutes on one core; SEED=n, FAULTS=n, HEALTHY=n
bench-machines: $(VENV)/.ready
	$(BIN)/python -m benchmarks.machines --seed $(or $(SEED),$(shell date +%s)) --write docs/accuracy-machines.md \
		$(if $(FAULTS),--faults $(FAULTS)) $(if $(HEALTHY),--healthy $(HEALTHY))

# faults in real jobs on this machine's cores; goes on from RESULTS. MINUTES of faults, HEALTHY of none
RESULTS ?= benchmarks/results/real-faults.jsonl
MINUTES ?= 120
HEALTHY ?= 120
bench-real-faults: $(VENV)/.ready
	$(BIN)/python benchmarks/real_faults.py --results $(RESULTS) --minutes $(MINUTES) $(if $(KEEP),--keep $(KEEP))
	$(BIN)/python benchmarks/real_faults.py --results $(RESULTS) --healthy $(HEALTHY) $(if $(KEEP),--keep $(KEEP))
	$(BIN)/python benchmarks/real_faults.py --report $(RESULTS) --write docs/accuracy-real-jobs.md

# sequences dealt evenly: predicted beside measured; half an hour, goes on where it ended
bench-dealing: $(VENV)/.ready
	$(BIN)/python -m benchmarks.dealing --results benchmarks/results/dealing.jsonl --steps 26
	$(BIN)/python -m benchmarks.dealing --report benchmarks/results/dealing.jsonl --write docs/data-loading.md

# pipeline schedules predicted, and run by real jobs; ten minutes, goes on where it ended
bench-schedules: $(VENV)/.ready
	$(BIN)/python -m benchmarks.schedules --results benchmarks/results/schedules.jsonl
	$(BIN)/python -m benchmarks.schedules --report benchmarks/results/schedules.jsonl --write docs/which-schedule.md

# small losses of MFU planted into generated jobs with recorded noise; ten minutes, goes on where it ended
bench-mfu: $(VENV)/.ready
	$(BIN)/python -m benchmarks.mfu_decline --write docs/mfu.md

# kernels planted slow on one rank of resampled profiles; five minutes
bench-slow-kernels: $(VENV)/.ready
	$(BIN)/python -m benchmarks.slow_kernels --trials 100 --write docs/mfu.md

# peaks of memory under pipeline schedules predicted, and of real jobs on CPUs; half an hour, goes on where it ended
bench-pipeline-memory: $(VENV)/.ready
	$(BIN)/python -m benchmarks.pipeline_memory --results benchmarks/results/pipeline-memory.jsonl
	$(BIN)/python -m benchmarks.pipeline_memory --report benchmarks/results/pipeline-memory.jsonl --write docs/which-schedule.md

# replayed steps beside measured ones, and planted slowdowns, in generated jobs; SEED=n repeats a run
bench-replay-fidelity: $(VENV)/.ready
	$(BIN)/python -m benchmarks.replay_fidelity --write docs/whatif.md $(if $(SEED),--seed $(SEED))

# slow starts planted in real jobs of four ranks, and a job that is killed twice; ten minutes
bench-startups: $(VENV)/.ready
	$(BIN)/python -m benchmarks.startups --write docs/goodput.md

# hosts named in drawn fleets with and without a bad one, and 1,000 runs read at once; SEED=n repeats a run
bench-fleet: $(VENV)/.ready
	$(BIN)/python -m benchmarks.fleet $(if $(SEED),--seed $(SEED))

# data loaders with faults in real jobs, two hours; goes on where it ended
bench-loaders: $(VENV)/.ready
	$(BIN)/python -m benchmarks.loaders --results benchmarks/results/loaders.jsonl --seed 23
	$(BIN)/python -m benchmarks.loaders --report benchmarks/results/loaders.jsonl --write docs/data-loading.md

# faults of one machine in real jobs on four hosts that are one (root, Linux); goes on from HOST_RESULTS. An hour
HOST_RESULTS ?= benchmarks/results/host-faults.jsonl
bench-host-faults: $(VENV)/.ready
	$(BIN)/python -m benchmarks.host_faults --results $(HOST_RESULTS)
	$(BIN)/python -m benchmarks.host_faults --report $(HOST_RESULTS) --write docs/accuracy-hosts.md

# real jobs that get stuck in 23 ways, and slow ones that do not; some two hours on a quiet machine.
# The slow ones are watched for two minutes each, one of each kind for 30
STUCK_RESULTS ?= stuck.jsonl
bench-stuck: $(VENV)/.ready
	$(BIN)/python -m benchmarks.stuck --rounds 3 --dumps --results $(STUCK_RESULTS) --slow-s 120
	$(BIN)/python -m benchmarks.stuck --rounds 1 --ranks 8 --at-once 4 --every-s 2 --slow-s 1800 \
		--only evaluation checkpoint compilation input --results $(STUCK_RESULTS)
	$(BIN)/python -m benchmarks.stuck --report $(STUCK_RESULTS) --write docs/accuracy-stuck.md

# two dashboards on one growing run for ten minutes, the one that indexes killed twice
bench-dashboards: $(VENV)/.ready
	$(BIN)/python -m benchmarks.dashboards

# large jobs generated, indexed, asked and opened; SIZE=small takes minutes, SIZE=full hours
SIZE ?= default sums
bench-scale: $(VENV)/.ready
	$(BIN)/python -m benchmarks.scale --size $(SIZE) $(if $(KEEP),--keep $(KEEP)) \
		$(if $(WRITE),--write docs/benchmarks.md)

# record the two runs in sample_traces/ again
samples: $(VENV)/.ready
	$(BIN)/python -m sample_traces.jobs.record

$(TOOLS)/.ready: Makefile
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/pip install --quiet uv==0.13.9 cyclonedx-bom==7.5.0
	touch $@

# the server's dependencies, at the versions of constraints.txt, with hashes (SECURITY.md)
requirements: $(TOOLS)/.ready
	$(PYTHON) tests/packaging/requirements.py header > $(REQUIREMENTS).new
	$(PYTHON) tests/packaging/requirements.py direct | $(TOOLS)/bin/uv pip compile --quiet \
		--generate-hashes --python-version 3.11 --python-platform x86_64-unknown-linux-gnu \
		-c constraints.txt --no-header --no-annotate - >> $(REQUIREMENTS).new
	mv $(REQUIREMENTS).new $(REQUIREMENTS)

# bill of materials of both wheels and their dependencies: dist/rankscope.cdx.json
sbom: $(TOOLS)/.ready
	rm -f $(DIST)/rankscope*.whl
	$(TOOLS)/bin/pip wheel --quiet --no-deps --wheel-dir $(DIST) ./trace_hooks .
	{ $(PYTHON) tests/packaging/requirements.py wheels $(DIST); cat $(REQUIREMENTS); } | \
		$(TOOLS)/bin/cyclonedx-py requirements --pyproject pyproject.toml --of JSON \
		--output-reproducible -o $(DIST)/rankscope.cdx.json -

clean:
	rm -rf $(VENV) $(GPU_VENV) $(FRAMEWORKS_VENV) $(S3_VENV) $(SPARK_VENV)
