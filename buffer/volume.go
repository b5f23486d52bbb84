package buffer

import (
	"fmt"
	"math"
)

// VolumeFree returns how many bytes are free on the volume of the data directory, for this process. It asks the operating system, so it
// takes as long as a volume that hangs.
func (b *Buffer) VolumeFree() (int64, error) {
	volume, err := b.fs.GetDiskUsage(b.dir)
	if err != nil {
		return 0, fmt.Errorf("buffer: free room of the volume of %s: %w", b.dir, err)
	}
	return int64(min(volume.AvailBytes, math.MaxInt64)), nil
}
