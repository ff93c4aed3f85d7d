package controller

import (
	"slices"

	"cordwood/fsm/metadata"
)

func chooseReported(p *metadata.Partition, reports []metadata.ReplicaReport, broker metadata.Brokers) (e metadata.ReportedElection, ok bool, why string) {
	e = metadata.ReportedElection{Partition: p.ID, LeaderEpoch: p.LeaderEpoch}
	var best metadata.ReplicaReport
	for _, id := range voters(p) {
		r, heard := reportOf(reports, id)
		if !heard || !metadata.Trusted(p, id, broker) {
			continue
		}
		e.Voters = append(e.Voters, r)
		if len(e.Voters) == 1 || r.LastEpoch > best.LastEpoch || r.LastEpoch == best.LastEpoch && r.End > best.End {
			best = r
		}
	}
	if byMajority(p, e) && broker(best.Broker.ID).MayLead() {
		e.Leader = best.Broker
		return e, true, ""
	}
	if r, heard := reportOf(reports, p.LastLeader); heard && broker(p.LastLeader).MayLead() && slices.Contains(voters(p), p.LastLeader) && p.Member(p.LastLeader).Cert >= broker(p.LastLeader).LossPower {
		e.Leader, e.Voters = r.Broker, []metadata.ReplicaReport{r}
		return e, true, ""
	}
	return e, false, "waiting for reports"
}
