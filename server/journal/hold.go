package journal

import "syscall"

// A body that is passed on must be there whole until it was, however long it is:
// beyond what the journal keeps of it, it lies on the state volume only meanwhile.
// Such bytes count for no quota, which is about what stays. They are bounded per
// trajectory, and leave a part of the volume free for what all journals still have
// to say. A crash leaves none: Open empties the directory they lie in.

// Hold makes the spool readable whole, also where the journal keeps nothing of it.
// It is called before the first Write.
func (s *Spool) Hold() { s.hold = true }

// loosen gives the quota back what was reserved of it: the body is only held now.
func (s *Spool) loosen() {
	s.loose = true
	s.j.release(s.reserved)
	s.reserved = 0
}

// Bounds of what is only held, in bytes.
const (
	maxLent  = 64 << 30 // of one trajectory
	lookStep = 16 << 20 // lent between two looks at the volume
	// freeShare of the volume, and freeBytes where that is more, stay free.
	freeShare = 16
	freeBytes = 1 << 30
)

// lend takes n bytes of the trajectory's allowance; false when there is no room.
func (j *Journal) lend(n int64) bool {
	j.mu.Lock()
	before := j.lent
	if before+n > j.store.maxLent {
		j.mu.Unlock()
		return false
	}
	j.lent += n
	j.mu.Unlock()
	if before/lookStep == (before+n)/lookStep && before > 0 {
		return true
	}
	if free, ok := j.store.roomFor(j.store.o.Temp); ok && free < n {
		j.takeBack(n)
		return false
	}
	return true
}

// takeBack ends what lend gave.
func (j *Journal) takeBack(n int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lent -= n
}

// RoomOn is how many bytes of the volume that dir is on may be lent. What it cannot
// find out, the disk says when it is full.
func RoomOn(dir string) (free int64, ok bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, false
	}
	size := int64(s.Bsize)
	return int64(s.Bavail)*size - min(freeBytes, int64(s.Blocks)*size/freeShare), true
}
