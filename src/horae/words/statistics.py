"""The sentences of errors about statistics and error groups, by reason."""

ERRORS = {
    "error_group_mixed": "This group holds errors of too many kinds to tell apart, so its dead jobs cannot be found by "
    "it. Revive them by handler or queue: `horae job revive`.",
    "error_group_unknown": "There is no error group {fingerprint!r} of {owner!r}. A group that was not seen for {days} "
    "days is removed; `horae errors list` shows what there is.",
    "mute_passed": "until {until} has passed; give a time in the future, or none to mute until it is unmuted.",
    "mute_reason_missing": "Muting {fingerprint} needs a reason, for those who wonder later why they heard nothing.",
    "statistics_of_others": "You see the statistics of {owner!r} only: ask by owner, without a name.",
    "too_many_points": "{points:,} points by {grain} are too many; at most {most:,} are returned. Choose a coarser "
    "grain or a shorter window.",
    "window_empty": "The window from {since} to {until} is empty; since must lie before until.",
}
