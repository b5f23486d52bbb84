package disktest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Files returns the paths of all files below a folder of the real disk, sorted, except for the locks of stores.
func Files(dir string) (paths []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name() != "LOCK" {
			paths = append(paths, path)
		}
		return err
	})
	slices.Sort(paths)
	return paths, err
}

// Copy copies a folder of the real disk. The copy of a store that is open and idle is the folder that a killed process leaves.
// The store may remove a file meanwhile. Then the copy lacks it.
func Copy(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path != from {
			return nil
		}
		if err != nil {
			return err
		}
		at := to + strings.TrimPrefix(path, from)
		if d.IsDir() {
			return os.MkdirAll(at, 0o700)
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return errors.Join(err, os.WriteFile(at, data, 0o600))
	})
}

// Damage damages a file of the real disk at random, as disks, crashes and people do, and says how. It may leave the file as it was.
func Damage(rng *rand.Rand, path string) (how string, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	// A log may end with zeros that were written ahead. Damage there is harmless, so most of it lies before them.
	used := len(data)
	if rng.IntN(8) > 0 {
		used = len(bytes.TrimRight(data, "\x00"))
	}
	at := 0
	if used > 0 {
		at = rng.IntN(used)
	}
	switch way := rng.IntN(8); {
	case way == 0:
		return "deleted", os.Remove(path)
	case way == 1 || len(data) == 0:
		how, data = "emptied", nil
	case way == 2:
		how, data = fmt.Sprintf("cut to %d of %d bytes", at, len(data)), data[:at]
	case way == 3:
		end := min(len(data), at+1+rng.IntN(1<<rng.IntN(16)))
		how = fmt.Sprintf("zero from byte %d to byte %d", at, end)
		clear(data[at:end])
	case way == 4:
		garbage := make([]byte, 1+rng.IntN(5000))
		for i := range garbage {
			garbage[i] = byte(rng.Uint32())
		}
		how, data = fmt.Sprintf("%d bytes of garbage after its %d bytes", len(garbage), len(data)), append(data, garbage...)
	case way == 5:
		how, data = fmt.Sprintf("its bytes from %d to %d once more after its %d bytes", at, used, len(data)), append(data, data[at:used]...)
	default:
		how = "flipped bits"
		for range 1 + rng.IntN(3) {
			bit := byte(1) << rng.IntN(8)
			how += fmt.Sprintf(" %#02x of byte %d", bit, at)
			data[at] ^= bit
			at = rng.IntN(len(data))
		}
	}
	return how, os.WriteFile(path, data, 0o600)
}
