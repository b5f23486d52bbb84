package streamapi

import (
	"fmt"
	"strconv"

	"github.com/forebay/forebay/catalog"
)

// What sources and sinks have in common. An operation of a source has no sink in its path.

// ref names the source and sink of the request.
func (c *request) ref() catalog.Ref { return catalog.Ref{Source: c.source, Sink: c.sink} }

// change is an operation without a body that starts a task.
func (a *api) change(do func(by catalog.By, ref catalog.Ref) (catalog.Task, error)) func(*request) (any, error) {
	return func(c *request) (any, error) { return a.task(c)(do(c.by, c.ref())) }
}

func (a *api) settings(c *request) (any, error) {
	list, err := a.cat.Settings(c.ref())
	if err != nil {
		return nil, err
	}
	return settingsBody{Settings: convert(list, newSetting)}, nil
}

func (a *api) updateSettings(c *request) (any, error) {
	b := c.body.(*settingsUpdate)
	changes := make([]catalog.SettingChange, 0, len(b.Settings))
	for _, s := range b.Settings {
		changes = append(changes, catalog.SettingChange{Key: s.Key, Value: s.Value})
	}
	return a.task(c)(a.cat.ChangeSettings(c.by, c.ref(), b.ChangeDescription, changes))
}

func (a *api) clear(c *request) (any, error) { return nil, a.cat.ClearStatistics(c.ctx, c.ref()) }

func (a *api) retry(c *request) (any, error) { return nil, a.on.Retry(c.ctx, c.ref()) }

// versions pages by the number, which a client may give with or without the zeros that the service writes.
func (a *api) versions(c *request) (any, error) {
	list, err := a.cat.Versions(c.ref())
	if err != nil {
		return nil, err
	}
	p := c.page
	if n, err := strconv.Atoi(p.afterID); err == nil {
		p.afterID = versionID(n)
	}
	list, page := cut(p, list, func(v catalog.Version) string { return versionID(v.Number) })
	page.AfterID = c.page.afterID
	return versionsBody{Versions: convert(list, newVersionBody), Page: page}, nil
}

func versionID(number int) string { return fmt.Sprintf("%010d", number) }

func (a *api) version(c *request) (any, error) {
	v, content, err := a.cat.Version(c.ref(), c.number)
	if err != nil {
		return nil, err
	}
	b := newVersionBody(v)
	b.Content = content
	return b, nil
}

func (a *api) rollback(c *request) (any, error) {
	return a.task(c)(a.cat.Rollback(c.by, c.ref(), c.number, 0))
}

// convert returns a list of bodies. It is never nil, because JSON would have null.
func convert[T, B any](list []T, body func(T) B) []B {
	bodies := make([]B, 0, len(list))
	for _, v := range list {
		bodies = append(bodies, body(v))
	}
	return bodies
}
