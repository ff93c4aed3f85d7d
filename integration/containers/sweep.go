package containers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Labels of all that a run makes.
const (
	projectLabel = "cordwood.torture"
	ownerLabel   = "cordwood.torture.owner"
	serviceLabel = "cordwood.torture.service"
)

// sweep removes everything of a project, and says how many things there were.
func (d *docker) sweep(ctx context.Context, project string) (found int, err error) {
	filter := "label=" + projectLabel + "=" + project
	var errs []error
	remove := func(list, rm []string) {
		out, err := d.run(ctx, append(list, "-q", "--filter", filter)...)
		ids := lines(out)
		found += len(ids)
		if err == nil && len(ids) > 0 {
			_, err = d.run(ctx, append(rm, ids...)...)
		}
		errs = append(errs, err)
	}
	if out, err := d.run(ctx, "ps", "-q", "--filter", filter, "--filter", "status=paused"); err == nil {
		for _, id := range lines(out) { // nothing that stands still can be killed
			_, _ = d.run(ctx, "unpause", id)
		}
	}
	remove([]string{"ps", "-a"}, []string{"rm", "-f", "-v"})
	remove([]string{"network", "ls"}, []string{"network", "rm"})
	remove([]string{"volume", "ls"}, []string{"volume", "rm"})
	return found, errors.Join(errs...)
}

const (
	sweepEvery  = 500 * time.Millisecond
	sweepWithin = 2 * time.Minute
)

// clear sweeps until so many sweeps in a row found nothing: a command that was broken off may still make something.
func (d *docker) clear(ctx context.Context, project string, empty int) error {
	ctx, cancel := context.WithTimeout(ctx, sweepWithin)
	defer cancel()
	for none := 0; ; {
		found, err := d.sweep(ctx, project)
		if none++; found > 0 || err != nil {
			none = 0
		}
		if none >= empty {
			return nil
		}
		if !pause(ctx, sweepEvery) {
			return fmt.Errorf("what the run made is not all removed, project %s: %w", project, errors.Join(ctx.Err(), err))
		}
	}
}

// sweepDead removes the projects of processes of this machine that have ended, and gives their names.
func (d *docker) sweepDead(ctx context.Context) (projects []string, err error) {
	format := fmt.Sprintf("{{.Label %q}}\t{{.Label %q}}", projectLabel, ownerLabel)
	for _, list := range [][]string{{"ps", "-a"}, {"network", "ls"}, {"volume", "ls"}} {
		out, err := d.run(ctx, append(list, "--filter", "label="+projectLabel, "--format", format)...)
		if err != nil {
			return nil, err
		}
		projects = append(projects, deadProjects(out, ourselves())...)
	}
	slices.Sort(projects)
	projects = slices.Compact(projects)
	var errs []error
	for _, p := range projects {
		errs = append(errs, d.clear(ctx, p, 1))
	}
	return projects, errors.Join(errs...)
}

// deadProjects reads lines of a project and its owner.
func deadProjects(out string, us owner) (projects []string) {
	for _, line := range lines(out) {
		project, by, _ := strings.Cut(line, "\t")
		if o, ok := parseOwner(by); ok && project != "" && o.dead(us) {
			projects = append(projects, project)
		}
	}
	return projects
}

// reaper is a process that outlives ours to remove what we made when we cannot.
type reaper struct {
	cmd  *exec.Cmd
	hold io.WriteCloser
}

// goodbye tells the reaper that nothing is left to do.
const goodbye = "done"

// startReaper starts one by a command line of ours, to which project and directory are added.
func startReaper(line []string, project, dir string) (*reaper, error) {
	cmd := exec.Command(line[0], append(slices.Clone(line[1:]), project, dir)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal's signal reaches it
	hold, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the process that cleans up after a crash: %w", err)
	}
	return &reaper{cmd, hold}, nil
}

// end lets it go; clean says that nothing is left to do.
func (r *reaper) end(clean bool) error {
	if clean {
		_, _ = io.WriteString(r.hold, goodbye+"\n")
	}
	return errors.Join(r.hold.Close(), r.cmd.Wait())
}

// emptyAfterCrash is how many sweeps must find nothing after a crash: what it was about to make comes within this time.
const emptyAfterCrash = 20

// Reap waits until in ends, and then removes a project and its directory unless in said goodbye.
func Reap(ctx context.Context, in io.Reader, project, dir string) error {
	s := bufio.NewScanner(in)
	for s.Scan() {
		if s.Text() == goodbye {
			return nil
		}
	}
	d := &docker{}
	return errors.Join(d.clear(ctx, project, emptyAfterCrash), os.RemoveAll(dir))
}

// pause waits; false: ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
