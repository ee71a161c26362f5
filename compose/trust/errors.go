package trust

import "fmt"

// StartedError says that a container has been started before, so that nothing
// is put into it.
type StartedError struct{}

func (*StartedError) Error() string {
	return "the container has been started before; take the trajectory down and bring it up again to change its trust"
}

// ReadOnlyError says that a container's root takes no files.
type ReadOnlyError struct {
	NeedsVolume bool // it is about [Bundle], which a volume can take instead
}

func (e *ReadOnlyError) Error() string {
	if e.NeedsVolume {
		return fmt.Sprintf("the root file system is read-only; give the service a volume at %s", BundleDir)
	}
	return "the root file system is read-only"
}

// MountError says that a file is on a mount that must not be changed.
type MountError struct {
	Path        string // the file
	Destination string // where the mount is
	Type        string // bind, tmpfs, volume, …
	Why         string
}

func (e *MountError) Error() string {
	return fmt.Sprintf("%s is on the %s mount at %s, %s", e.Path, e.Type, e.Destination, e.Why)
}

// FileError says that a file is not what it should be.
type FileError struct {
	Path string
	Why  string
}

func (e *FileError) Error() string { return e.Path + " " + e.Why }
