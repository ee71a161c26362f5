package api

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// What the assets of one trajectory may be. Both sides keep to it: the host reads
// archives of containers, and the simulator's volume is shared by all.
const (
	MaxAssets      = 100_000  // files
	MaxAssetBytes  = 16 << 30 // bytes of content, all files together
	MaxAssetName   = 4 << 10  // bytes of one path
	MaxAssetNames  = 32 << 20 // bytes of all paths together
	MaxAssetStages = 64       // uploads that are neither committed nor dropped
)

// Asset is one file that a trajectory's personas serve under /assets.
type Asset struct {
	Path     string    `json:"path"` // below /assets; see [CheckAssetPath]
	Size     int64     `json:"size"` // bytes
	SHA256   string    `json:"sha256"`
	Type     string    `json:"type"` // as it is served, without the charset that some servers add to it
	Modified time.Time `json:"modified"`
	Mode     uint32    `json:"mode"` // permission bits, as the file had them
	Seed     bool      `json:"seed"` // copied out of the default container; false: put later
}

// AssetSum says which files there are without listing them. Two that are equal
// are of the same files: Digest covers path, content, time and mode of each, in the
// order in which they were sent.
type AssetSum struct {
	Files  int    `json:"files"`
	Bytes  int64  `json:"bytes"` // of content, a file that has two names counted twice
	Digest string `json:"digest"`
}

// AssetsStaged answers an upload: what has arrived and is on stable storage. Nobody
// is served any of it before it is committed.
type AssetsStaged struct {
	Stage string `json:"stage"` // names the upload
	AssetSum
}

// AssetCommit makes an upload visible, all of it in one step.
type AssetCommit struct {
	AssetSum // of what the caller sent; another sum than the upload's is refused
	// SeededFrom is the container whose seed directory this is. What an earlier seed
	// brought and this one does not have goes; what was put by hand stays. "" is an
	// upload by hand, which replaces files of the same path.
	SeededFrom string `json:"seeded_from,omitempty"`
}

// AssetsCommitted answers it.
type AssetsCommitted struct {
	Assets   []Asset  `json:"assets"`   // those of the upload, by path; none of a seed
	Replaced []string `json:"replaced"` // paths that had another file before
}

// AssetList is all that is served under /assets.
type AssetList struct {
	Assets []Asset `json:"assets"` // by path
	Seeded *Seeded `json:"seeded"` // null: no seed directory was copied
}

// Seeded says what is known about the seed directory.
type Seeded struct {
	From     string `json:"from"` // id of the container it was copied out of
	AssetSum        // as it was copied
	// Deleted are the ids of the containers in which it is gone. What has its name
	// there now is not what was to be served.
	Deleted []string `json:"deleted"`
}

// CheckAssetPath says why a path cannot be an asset's: it must be relative, of
// segments that are neither empty nor dots, and UTF-8 without NUL. What else is in
// it (spaces, newlines, any script) is a matter of who asks for it.
func CheckAssetPath(path string) error {
	switch {
	case path == "":
		return fmt.Errorf("the path is empty")
	case len(path) > MaxAssetName:
		return fmt.Errorf("the path has more than %d bytes", MaxAssetName)
	case strings.ContainsRune(path, 0):
		return fmt.Errorf("the path has a NUL in it")
	case !utf8.ValidString(path):
		return fmt.Errorf("the path is not UTF-8")
	case path[0] == '/':
		return fmt.Errorf("the path is absolute")
	}
	for segment := range strings.SplitSeq(path, "/") {
		switch segment {
		case "":
			return fmt.Errorf("the path has an empty segment")
		case ".", "..":
			return fmt.Errorf("the path has a segment %q", segment)
		}
	}
	return nil
}
