package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/errdefs"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/compose/sidecar"
	"github.com/linuxarena/ctis/imagehash"
	"github.com/linuxarena/ctis/netpin"
	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/simulator"
)

// sidecarStop is how long a sidecar may take to end what is in work. nginx cuts it off
// after two seconds.
const sidecarStop = 5 * time.Second

// registryPatience is how long a registry may take to say whether it has an image.
const registryPatience = 10 * time.Second

// nginxImage is the image of sidecars.
func (a *app) nginxImage() string {
	return cmp.Or(a.env["CTIS_NGINX_IMAGE"], compose.DefaultNginxImage)
}

// ensureNginx makes sure of it, pulling it where it is missing.
func (a *app) ensureNginx(ctx context.Context, detail func(string)) (*simulator.ImageResult, error) {
	ref := a.nginxImage()
	image, err := simulator.EnsureImage(ctx, a.engine, simulator.ImageOptions{
		Choice: imagehash.Choice{Ref: ref, Policy: imagehash.PullMissing}, Credentials: a.registryCredentials, Progress: detail,
	})
	if err != nil && ctx.Err() == nil {
		return nil, noNginx(ref, err)
	}
	return image, err
}

// nginxReady says where sidecars get their image from, without pulling it; an error
// where an environment that exposes services could not be set up.
func (a *app) nginxReady(ctx context.Context) (string, error) {
	ref := a.nginxImage()
	_, err := a.engine.ImageInspect(ctx, ref)
	switch {
	case err == nil:
		return fmt.Sprintf("image %q is here", ref), nil
	case !errdefs.IsNotFound(err):
		return "", fmt.Errorf("look for image %q: %w", ref, err)
	}
	// Without a way out, to give up takes engines half a minute.
	ctx, cancel := context.WithTimeout(ctx, registryPatience)
	defer cancel()
	if _, err := a.engine.DistributionInspect(ctx, ref, simulator.RegistryAuth(ctx, a.engine, ref, a.registryCredentials)); err != nil {
		return "", noNginx(ref, err)
	}
	return fmt.Sprintf("image %q is pulled when it is first needed", ref), nil
}

// noNginx says how to come by an image that cannot be pulled.
func noNginx(ref string, err error) error {
	login := ""
	var failed *simulator.ImageError
	if errors.As(err, &failed) && failed.Refused() {
		login = failed.Hint() + "; "
	}
	return &hintedError{
		err: fmt.Errorf("the image %q, which exposed services need, is not here: %w", ref, err),
		hint: login + "without a registry, docker save it where it is and docker load it here; " +
			"or name another image that has nginx with CTIS_NGINX_IMAGE",
		details: map[string]any{"image": ref},
	}
}

// sidecarImage is the step that makes sure of the sidecar's image.
func (s *setup) sidecarImage(ctx context.Context, line *uiStep) (string, error) {
	image, err := s.app.ensureNginx(ctx, line.detail)
	if err != nil {
		return "", err
	}
	if image.Pulled {
		return image.Ref + " (pulled)", nil
	}
	return image.Ref, nil
}

// renewSidecar removes a sidecar that has run and no longer is what it would be made as
// now: its certificates come to their end, or its configuration is an older ctis'. Docker
// Compose makes it anew. Nothing is written into a container that has run.
func (s *setup) renewSidecar(ctx context.Context) error {
	want := s.env.Sidecar(s.id)
	have, ok := s.before.Sidecar()
	if want == nil || !ok || have.State == "created" {
		return nil
	}
	config, err := sidecar.Config(want)
	if err != nil {
		return err
	}
	ca, err := s.sim.Client.CA(ctx)
	if err != nil {
		return err
	}
	files, err := sidecar.Read(ctx, s.app.engine, have.ID)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	why := ""
	if err != nil {
		why = err.Error()
	} else {
		why = files.Stale(config, ca, want.Hostnames(), time.Now())
	}
	if why == "" {
		return nil
	}
	s.app.ui.note(fmt.Sprintf("container %q is made anew: %s", have.Name, printable(why)))
	if err := s.removeSidecar(ctx, have); err != nil {
		return err
	}
	return s.look(ctx)
}

// removeSidecar removes it when all that it logged is in the journal.
func (s *setup) removeSidecar(ctx context.Context, c netpin.Container) error {
	if err := s.app.endSidecar(ctx, s.sim.Client, s.id, c); err != nil {
		return err
	}
	return netpin.RemoveContainers(ctx, s.app.engine, 0, c.ID)
}

// expose is the step that puts configuration and certificates into the sidecar.
func (s *setup) expose(ctx context.Context, _ *uiStep) (string, error) {
	want := s.env.Sidecar(s.id)
	project, err := netpin.FindMembers(ctx, s.app.engine, s.id)
	if err != nil {
		return "", err
	}
	have, ok := project.Sidecar()
	if !ok {
		return "", fmt.Errorf("docker compose made no sidecar for the exposed services of %q", s.id)
	}
	if have.State == "created" {
		config, err := sidecar.Config(want)
		if err != nil {
			return "", err
		}
		certificates, err := s.sim.Client.Certificates(ctx, s.id, want.Hostnames())
		if err != nil {
			return "", err
		}
		if err := sidecar.Deliver(ctx, s.app.engine, have.ID, sidecar.NewFiles(config, certificates)); err != nil {
			return "", err
		}
	}
	return plural(len(want.Routes), "hostname"), nil
}

// collectExposed puts into the journal what the sidecar of a trajectory logged since it
// was last read. Without a sidecar, or a registration, there is nothing to do.
func (a *app) collectExposed(ctx context.Context, admin *api.Client, id string) error {
	c, ok, err := netpin.FindSidecar(ctx, a.engine, id)
	if err != nil || !ok || c.State == "created" || c.Labels[compose.LabelInstance] != a.instance {
		return err
	}
	return a.collect(ctx, admin, id, c, false)
}

func (a *app) collect(ctx context.Context, admin *api.Client, id string, c netpin.Container, final bool) error {
	_, err := sidecar.Collect(ctx, a.engine, admin, id, c.ID, final)
	var refused *api.Error
	if errors.As(err, &refused) && refused.Code == api.CodeNotFound {
		return nil // never registered, or no more
	}
	return err
}

// endSidecar stops a sidecar and puts the rest of what it logged into the journal.
func (a *app) endSidecar(ctx context.Context, admin *api.Client, id string, c netpin.Container) error {
	if c.State == "created" {
		return nil
	}
	if err := netpin.Stop(ctx, a.engine, c.ID, sidecarStop); err != nil {
		return err
	}
	return a.collect(ctx, admin, id, c, true)
}

// lastOfSidecar does so before a trajectory is taken down. What cannot be read then is
// no reason to leave the trajectory up.
func (a *app) lastOfSidecar(ctx context.Context, id string, project netpin.Project, seen simulator.Observed, line *uiStep) error {
	c, ok := project.Sidecar()
	if !ok || !seen.Answering {
		return nil
	}
	line.detail("collecting the requests to exposed services")
	admin, err := simulator.Connect(ctx, a.engine, a.instance)
	if err == nil {
		defer admin.Close()
		err = a.endSidecar(ctx, admin, id, c)
	}
	if err != nil && ctx.Err() == nil {
		a.ui.warn(fmt.Sprintf("trajectory %q: the last requests to its exposed services are not in its journal: %v", id, err))
		return nil
	}
	return ctx.Err()
}

// collectPause is how long collecting rests at least between two times.
const collectPause = 50 * time.Millisecond

// watchExposed collects whenever the sidecar logs something, until the context ends, for
// who follows a journal. Each second it does so too: the sidecar may be another by then.
func (a *app) watchExposed(ctx context.Context, id string) {
	var admin *api.Client
	logged := make(chan struct{}, 1)
	go a.watchSidecar(ctx, id, logged)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if admin != nil {
				admin.Close()
			}
			return
		case <-tick.C:
		case <-logged:
			time.Sleep(collectPause) // what comes together is collected together
		}
		err := error(nil)
		if admin == nil {
			admin, err = a.connect(ctx)
		}
		if err == nil {
			err = a.collectExposed(ctx, admin, id)
		}
		if err != nil {
			a.log.Info("requests to exposed services cannot be read", "trajectory", id, "error", err)
			if admin != nil {
				admin.Close() // the simulator may have been restarted
				admin = nil
			}
		}
	}
}

// watchSidecar signals what the sidecar of a trajectory logs, whichever it is.
func (a *app) watchSidecar(ctx context.Context, id string, logged chan<- struct{}) {
	for ctx.Err() == nil {
		c, ok, err := netpin.FindSidecar(ctx, a.engine, id)
		if err == nil && ok {
			err = sidecar.Watch(ctx, a.engine, c.ID, logged)
		}
		if err != nil && ctx.Err() == nil {
			a.log.Info("the log of exposed services cannot be followed", "trajectory", id, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// readExposed collects once, for who reads a journal or counts its records. What cannot
// be read is said; the journal is shown all the same.
func (a *app) readExposed(ctx context.Context, id string) error {
	err := a.collectOnce(ctx, id)
	var unread *uncollectedError
	if errors.As(err, &unread) && ctx.Err() == nil {
		a.ui.warn(fmt.Sprintf("trajectory %q: %v", id, err))
		return nil
	}
	return err
}

// uncollectedError says that what a sidecar recorded could not be brought into the
// journal of its trajectory, which can be read all the same.
type uncollectedError struct{ err error }

func (e *uncollectedError) Error() string {
	return fmt.Sprintf("the newest requests to its exposed services cannot be read: %v", e.err)
}

func (e *uncollectedError) Unwrap() error { return e.err }

// collectOnce collects what a trajectory's sidecar has recorded, if there is one. Where
// that fails it is an [uncollectedError]; any other error is one of the engine.
func (a *app) collectOnce(ctx context.Context, id string) error {
	if collect := a.setting.Collect; collect != nil {
		if err := collect(ctx, id); err != nil {
			return &uncollectedError{err}
		}
		return nil
	}
	if _, err := a.openEngine(ctx); err != nil {
		return err
	}
	_, ok, err := netpin.FindSidecar(ctx, a.engine, id)
	if err == nil && ok {
		var admin *api.Client
		if admin, err = a.connect(ctx); err == nil {
			defer admin.Close()
			err = a.collectExposed(ctx, admin, id)
		}
	}
	if err != nil {
		return &uncollectedError{err}
	}
	return nil
}
