package commands

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/netpin"
	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/simulator"
)

// The rules here are:
//
//   - The simulator gives what only one trajectory can have to one of those it
//     serves, in one step, before anything of it is made.
//   - What it cannot know of (other instances, other programs, what an earlier
//     trajectory left) is looked for in the engine, before anything is made and
//     again after: two that made their look at once then see each other, and at
//     least one goes back. No container has been started by then.
//   - A refusal names the place in the Compose file and who is in the way.

// hands says who has something: `which trajectory "t1" has`.
type hands struct {
	name string // trajectory, project, container or network, for programs
	text string // ends the sentence that begins with what is exclusive
	hint string
}

// refused says that somebody else has x.
func refused(x compose.Exclusive, by hands) error {
	msg := fmt.Sprintf("%s: %s, %s", x.Place(), x, by.text)
	if x.Fixed {
		msg += "; only one trajectory at a time can have it"
	}
	return &conflictError{msg: msg, hint: by.hint, details: map[string]any{
		"kind": x.Kind, "name": x.Name, "key": x.Key, "file": x.File, "line": x.Line, "column": x.Column, "holders": []string{by.name},
	}}
}

func isConflict(err error) bool {
	var c *conflictError
	return errors.As(err, &c)
}

// explainHold makes the simulator's refusal one about the Compose file.
func (s *setup) explainHold(err error) error {
	var e *api.Error
	if !errors.As(err, &e) || e.Exclusive == nil || len(e.Holders) == 0 {
		return err
	}
	i := slices.IndexFunc(s.env.Exclusive, func(x compose.Exclusive) bool { return x.Exclusive == *e.Exclusive })
	if i < 0 {
		return err
	}
	holder := e.Holders[0]
	by := hands{name: holder, text: fmt.Sprintf("which trajectory %q has", holder), hint: "ctis down " + holder + " releases it"}
	if e.Code == api.CodeHeld {
		by.text = fmt.Sprintf("which trajectory %q is being given at this moment", holder)
		by.hint = "wait until that ctis up has ended, then ctis down " + holder + " releases it"
	}
	return refused(s.env.Exclusive[i], by)
}

// unshared looks in the engine for somebody else who has what this trajectory is to
// have alone. With tell, it also says who shares what is external without being a
// trajectory.
func (s *setup) unshared(ctx context.Context, tell bool) error {
	l := engineLook{ctx: ctx, engine: s.app.engine, id: s.id, instance: s.app.instance}
	if tell {
		l.warn = s.app.ui.warn
	}
	var volumes []string
	for _, x := range s.env.Exclusive {
		if x.Kind == api.KindVolume {
			volumes = append(volumes, x.Name)
		}
	}
	var err error
	if l.networks, err = netpin.Networks(ctx, s.app.engine); err != nil {
		return err
	}
	if l.volumes, err = netpin.Volumes(ctx, s.app.engine, volumes); err != nil {
		return err
	}
	for _, x := range s.env.Exclusive {
		if err := l.judge(x); err != nil {
			return err
		}
	}
	return nil
}

// engineLook is what the engine has at one moment, as trajectory id sees it.
type engineLook struct {
	ctx          context.Context //nolint:containedctx // of one look
	engine       netpin.Engine
	id, instance string
	networks     []netpin.Network
	volumes      map[string]netpin.Volume
	warn         func(string) // nil: says nothing
}

func (l *engineLook) judge(x compose.Exclusive) error {
	switch x.Kind {
	case api.KindNetwork:
		return l.network(x)
	case api.KindVolume:
		return l.volume(x)
	case api.KindSubnet:
		subnet, err := netip.ParsePrefix(x.Name)
		if err != nil {
			return fmt.Errorf("%s: %w", x.Place(), err)
		}
		return l.noOther(x, func(n netpin.Network) bool { return slices.ContainsFunc(n.Subnets, subnet.Overlaps) })
	case api.KindBridge:
		return l.noOther(x, func(n netpin.Network) bool { return n.Options[compose.OptionBridge] == x.Name })
	case api.KindParent:
		return l.noOther(x, func(n netpin.Network) bool {
			return n.Driver != "bridge" && n.Options[compose.OptionParent] == x.Name
		})
	case api.KindContainer:
		return l.container(x)
	case api.KindHost:
		if x.Name != compose.HostNetwork {
			return nil // of the others the engine has no list
		}
		return l.usedBy(x, func() ([]netpin.Container, error) {
			return netpin.OnNetwork(l.ctx, l.engine, netpin.Network{ID: "host", Name: "host"})
		}, "")
	}
	return nil
}

// noOther makes sure that no network of somebody else is like that.
func (l *engineLook) noOther(x compose.Exclusive, like func(netpin.Network) bool) error {
	for _, n := range l.networks {
		if n.Project() != l.id && like(n) {
			by := l.hands(n.Project(), n.Labels, "network "+quoted(n.Name), "docker network rm "+n.Name)
			by.text += fmt.Sprintf(" (network %q)", n.Name)
			return refused(x, by)
		}
	}
	return nil
}

func (l *engineLook) network(x compose.Exclusive) error {
	var found []netpin.Network
	var ids []string
	for _, n := range l.networks {
		if n.Name != x.Name {
			continue
		}
		if !x.External && n.Project() != l.id {
			return refused(x, l.hands(n.Project(), n.Labels, "network "+quoted(n.Name), "docker network rm "+n.ID[:min(12, len(n.ID))]))
		}
		found, ids = append(found, n), append(ids, n.ID)
	}
	if len(found) > 1 {
		return fmt.Errorf("%s: %w", x.Place(), &netpin.AmbiguousNetworkError{Name: x.Name, IDs: ids})
	}
	if !x.External {
		return nil
	}
	if len(found) == 0 {
		return missing(x, "docker network create "+x.Name)
	}
	n := found[0]
	if t := n.Labels[compose.LabelTrajectory]; t != "" && t != l.id {
		return refused(x, l.hands(n.Project(), n.Labels, "", ""))
	}
	return l.usedBy(x, func() ([]netpin.Container, error) { return netpin.OnNetwork(l.ctx, l.engine, n) },
		"%s: network %q is external and not the trajectory's alone: %s can see what it sends there, and be reached")
}

func (l *engineLook) volume(x compose.Exclusive) error {
	v, found := l.volumes[x.Name]
	switch {
	case !found && x.External:
		return missing(x, "docker volume create "+x.Name)
	case !found:
		return nil
	case !x.External && v.Project() != l.id:
		remove := "docker volume rm " + v.Name + " removes it with all that is in it"
		if v.Project() == "" {
			return refused(x, hands{name: "volume " + quoted(v.Name), text: "which exists already and is no Compose project's", hint: remove})
		}
		return refused(x, hands{
			name: v.Project(), text: fmt.Sprintf("which %q has or left behind", v.Project()),
			hint: "ctis down " + v.Project() + " --volumes releases it; where nothing else is left of that one, " + remove,
		})
	}
	foreign := ""
	if x.External {
		foreign = "%s: volume %q is external and not the trajectory's alone: %s can read and write what is in it"
	}
	return l.usedBy(x, func() ([]netpin.Container, error) { return netpin.OfVolume(l.ctx, l.engine, v.Name) }, foreign)
}

func (l *engineLook) container(x compose.Exclusive) error {
	c, found, err := netpin.Named(l.ctx, l.engine, x.Name)
	if err != nil {
		return err
	}
	if !found {
		return missing(x, "")
	}
	if t := c.Labels[compose.LabelTrajectory]; t != "" && t != l.id {
		return refused(x, l.hands(c.Project(), c.Labels, "", ""))
	}
	if c.Labels[simulator.LabelInstance] != "" && c.Labels[compose.LabelTrajectory] == "" {
		return refused(x, hands{name: c.Name, text: "which is a simulator's", hint: "name another container"})
	}
	return nil
}

// usedBy makes sure that no container of another trajectory is among the users of x,
// and warns, with foreign, of those that are of no trajectory.
func (l *engineLook) usedBy(x compose.Exclusive, users func() ([]netpin.Container, error), foreign string) error {
	list, err := users()
	if err != nil {
		return err
	}
	var others []string
	for _, c := range list {
		switch t := c.Labels[compose.LabelTrajectory]; {
		case t == l.id, t == "" && c.Labels[simulator.LabelInstance] != "": // its own, and simulators
		case t != "":
			return refused(x, l.hands(c.Project(), c.Labels, "", ""))
		default:
			others = append(others, quoted(c.Name))
		}
	}
	if foreign != "" && l.warn != nil && len(others) > 0 {
		shown := others[:min(len(others), 5)]
		who := "container " + strings.Join(shown, ", ")
		if more := len(others) - len(shown); more > 0 {
			who += fmt.Sprintf(" and %d more", more)
		}
		l.warn(fmt.Sprintf(foreign, x.Place(), x.Key, who))
	}
	return nil
}

// hands reads from labels who has something. What nobody is known to have goes by
// its own name, and by the command that removes it.
func (l *engineLook) hands(project string, labels map[string]string, name, remove string) hands {
	t, instance := labels[compose.LabelTrajectory], labels[simulator.LabelInstance]
	switch {
	case t != "" && instance == l.instance:
		return hands{name: t, text: fmt.Sprintf("which trajectory %q has", t), hint: "ctis down " + t + " releases it"}
	case t != "":
		return hands{
			name: t, text: fmt.Sprintf("which trajectory %q of the instance %q has", t, instance),
			hint: fmt.Sprintf("ctis --instance %s down %s releases it", instance, t),
		}
	case project != "":
		return hands{
			name: project, text: fmt.Sprintf("which the Compose project %q has", project),
			hint: "docker compose -p " + project + " down releases it",
		}
	}
	return hands{name: name, text: "which exists already and is no Compose project's", hint: remove + " removes it, if nobody needs it"}
}

// missing says that what is external is not there.
func missing(x compose.Exclusive, create string) error {
	err := fmt.Errorf("%s: %s, which does not exist", x.Place(), x)
	hint := "start it first, or name another one"
	if create != "" {
		hint = create + " makes it"
	}
	return &hintedError{err: err, hint: hint, details: map[string]any{"kind": x.Kind, "name": x.Name, "key": x.Key, "file": x.File, "line": x.Line, "column": x.Column}}
}
