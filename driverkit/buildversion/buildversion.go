// Package buildversion tells which version of Forebay a program was built from.
package buildversion

import (
	"runtime/debug"
	"strings"
	"sync"
)

const root = "github.com/forebay/forebay"

// String returns the version of Forebay in this program: a tag, a pseudo-version that ends with the commit, "devel-" and the commit if the
// program was built in a clone, or "devel" if the program does not say.
func String() string { return built() }

// Product returns the version as HTTP names a program in User-Agent and Server.
func Product() string { return "forebay/" + String() }

var built = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	return of(info)
})

func of(info *debug.BuildInfo) string {
	if info.Main.Path == root || strings.HasPrefix(info.Main.Path, root+"/") {
		// A module of this repository replaces the other modules, so the main module has the version that was built.
		if released(info.Main.Version) {
			return info.Main.Version
		}
		return inClone(info.Settings)
	}
	for _, m := range info.Deps {
		if m.Path != root {
			continue
		}
		if m.Replace != nil {
			m = m.Replace // its version is empty if it is a folder
		}
		if released(m.Version) {
			return m.Version
		}
	}
	return "devel"
}

// released is false for the versions that stand for none.
func released(version string) bool {
	return version != "" && version != "(devel)" && version != "v0.0.0"
}

func inClone(settings []debug.BuildSetting) string {
	version := "devel"
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			version += "-" + s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true": // follows the revision
			version += "+dirty"
		}
	}
	return version
}
