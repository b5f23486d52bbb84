package buildversion

import (
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	const pseudo = "v0.0.0-20261128190143-0123456789ab"
	commit := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}}
	user := debug.Module{Path: "example.com/shop", Version: "v1.2.3"}
	for name, c := range map[string]struct {
		info debug.BuildInfo
		want string
	}{
		"a program of this repository, from a release": {
			debug.BuildInfo{Main: debug.Module{Path: root + "/cmd/forebay", Version: "v0.3.0"}}, "v0.3.0",
		},
		"a program of this repository, in a clone": {
			debug.BuildInfo{Main: debug.Module{Path: root + "/cmd/forebay", Version: "(devel)"}, Settings: commit}, "devel-0123456789ab+dirty",
		},
		"a program of this repository, which replaces the root": {
			debug.BuildInfo{
				Main: debug.Module{Path: root + "/cmd/forebay", Version: "(devel)"},
				Deps: []*debug.Module{{Path: root, Version: pseudo, Replace: &debug.Module{Path: "../.."}}},
			}, "devel",
		},
		"a program of a user": {debug.BuildInfo{Main: user, Deps: []*debug.Module{{Path: root, Version: pseudo}}}, pseudo},
		"a program of a user that replaces Forebay by a folder": {
			debug.BuildInfo{Main: user, Deps: []*debug.Module{{Path: root, Version: "v0.0.0", Replace: &debug.Module{Path: "../forebay"}}}}, "devel",
		},
		"a program of a user that replaces Forebay by a fork": {
			debug.BuildInfo{Main: user, Deps: []*debug.Module{{Path: root, Version: "v0.3.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v0.3.1"}}}}, "v0.3.1",
		},
		"a program without Forebay": {debug.BuildInfo{Main: user}, "devel"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := of(&c.info); got != c.want {
				t.Errorf("of(%+v) = %q, want %q", c.info, got, c.want)
			}
		})
	}
}
