// Package keep has the small files that the programs keep.
package keep

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Secret reads a secret from a file. At the first start it makes one, so that clients survive restarts.
func Secret(path string) (string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		made := strings.ToLower(rand.Text() + rand.Text())
		return made, Write(path, []byte(made))
	}
	if text = bytes.TrimSpace(text); err == nil && len(text) == 0 {
		err = fmt.Errorf("%s is empty: write a token into it, or delete it and a new one is made", path)
	}
	return string(text), err
}

// Read reads the file that a flag names.
func Read(flag, path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, Unreadable(flag, err)
	}
	return text, nil
}

// Unreadable is the error for the file of a flag that cannot be read. err names the file.
func Unreadable(flag string, err error) error {
	if _, ok := errors.AsType[*fs.PathError](err); !ok {
		return fmt.Errorf("-%s: %w", flag, err)
	}
	return fmt.Errorf("-%s: %w: name a file that this user can read", flag, err)
}

// Folder makes a folder with its parents. The error names the flag that has the path.
func Folder(flag, path string, mode fs.FileMode) error {
	err := os.MkdirAll(path, mode)
	if fault, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("-%s: %s cannot be a folder, %w: choose a path in which this user may make folders", flag, fault.Path, fault.Err)
	}
	return err
}

// Write replaces a file, which only its owner can read. After a power cut it has the old text or the new one.
func Write(path string, text []byte) error {
	f, err := os.OpenFile(path+".tmp", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil || runtime.GOOS == "windows" { // where folders cannot be synced
		return err
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
