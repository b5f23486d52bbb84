//go:build forebay_iceberg

package main

import (
	"context"
	"strings"
)

// liveFiles are the data files of the current snapshot. The folder of a table also contains files that a merge has replaced.
func (r icebergReader) liveFiles(name string) (paths []string, err error) {
	t, err := r.load(name)
	if err != nil {
		return nil, err
	}
	tasks, err := t.Scan().PlanFiles(context.Background())
	for _, task := range tasks {
		paths = append(paths, strings.TrimPrefix(task.File.FilePath(), "file://"))
	}
	return paths, err
}
