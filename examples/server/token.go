package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// tokenFile is in the data directory.
const tokenFile = "token"

// apiToken makes a token at the first start and keeps it, so that clients of the API survive restarts.
func apiToken(cfg config) (string, error) {
	if cfg.token != "" {
		return cfg.token, nil
	}
	path := filepath.Join(cfg.dir, tokenFile)
	b, err := os.ReadFile(path)
	if err == nil {
		token := strings.TrimSpace(string(b))
		if token == "" {
			return "", fmt.Errorf("%s is empty: write the token of the API into it, or delete it and a new one is made", path)
		}
		return token, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	token := rand.Text() + rand.Text()
	return token, writeDurably(path, token+"\n")
}

// writeDurably makes a file that only its owner can read. After a power cut the file is complete or absent.
func writeDurably(path, text string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp-") // with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	if runtime.GOOS == "windows" {
		return nil // directories cannot be synced there
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
