package main

import (
	"math"
	"runtime/debug"
)

// heapFloor makes the collector wait for this many bytes of garbage at least.
// What a server holds between requests is so little that by Go's rule (collect
// when the heap has doubled, from 4 MiB on) it would collect every few hundred
// requests. Raising GOGC instead would let a heap that really is large grow to a
// multiple; this adds a constant. Nobody writes to it, so it takes up addresses
// and no memory.
const heapFloor = 32 << 20

func newHeapFloor() []byte { return make([]byte, heapFloor) }

// heapCeiling is where the collector works harder rather than let the heap grow:
// half of what the container is given, so that a burst is collected before the
// kernel ends the process for it.
const heapCeiling = 2 << 30

// setHeapCeiling leaves a limit alone that the environment sets.
func setHeapCeiling() {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(heapCeiling)
	}
}
