package containers

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// owner says whose a project is: a process of a machine, so that what a dead one left is known from what runs.
type owner struct {
	host  string // and the set of process numbers that pid is one of
	pid   int
	start string // when the process began, in the kernel's words; empty where it does not tell
}

func ourselves() owner {
	o := owner{pid: os.Getpid()}
	o.host, _ = os.Hostname()
	if space, err := os.Readlink("/proc/self/ns/pid"); err == nil {
		o.host += "/" + space
	}
	o.start = startOf(o.pid)
	return o
}

func (o owner) String() string { return fmt.Sprintf("%s %d %s", o.host, o.pid, o.start) }

// parseOwner reads what String wrote; false: it is not of that form.
func parseOwner(text string) (owner, bool) {
	words := strings.Split(text, " ")
	if len(words) != 3 {
		return owner{}, false
	}
	pid, err := strconv.Atoi(words[1])
	if err != nil || pid <= 0 || words[0] == "" {
		return owner{}, false
	}
	return owner{host: words[0], pid: pid, start: words[2]}, true
}

// dead says that the process is one of us's machine and has ended. Others nobody here can know.
func (o owner) dead(us owner) bool {
	if o.host != us.host {
		return false
	}
	if err := syscall.Kill(o.pid, 0); errors.Is(err, syscall.ESRCH) {
		return true
	}
	return startOf(o.pid) != o.start
}

// startOf is field 22 of the process's stat.
func startOf(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(b), ") ") // the name before may hold anything
	if f := strings.Fields(rest); len(f) > 19 {
		return f[19]
	}
	return ""
}
