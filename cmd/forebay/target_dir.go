package main

import (
	"fmt"

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/internal/program/store"
)

func folderTarget() targetKind {
	return targetKind{
		prefixes: []string{"dir:"}, form: "dir:FOLDER", summary: "folders of CSV files", ages: true,
		prepare: func(rest string, f targetFlags) (opener, []error) {
			return func() (*store.Store, error) {
				tables := dir.TablesWith(rest, f.TablesOptions)
				return &store.Store{Target: tables, Tables: tables, Drop: tables.Drop, Hint: fmt.Sprintf("head -n 3 '%s'/*/*.csv", rest)}, nil
			}, f.options.read(nil)
		},
	}
}
