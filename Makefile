# Thin on purpose: what each target consists of is written in xtask/src/steps.rs.

.PHONY: check test test-slow test-long e2e console bench

check test test-slow test-long: cargo
	@cargo xtask $@

# make console looks at every screen in a browser and does what operators do by keyboard.
console: cargo
	@cargo xtask console $(ARGS)

# make e2e ARGS="boto3 go" runs these clients only.
e2e: cargo
	@cargo xtask e2e $(ARGS)

# make bench measures the budget table; ARGS="engine", ARGS="budget --help" and others are in docs/performance.md.
bench: cargo
	@cargo xtask bench $(ARGS)

.PHONY: cargo
cargo:
	@command -v cargo >/dev/null || { echo "MISSING  cargo: install the Rust toolchain from https://rustup.rs" >&2; exit 1; }
