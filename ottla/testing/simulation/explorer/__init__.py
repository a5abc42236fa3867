"""Every order of events, in a small world: breadth first through all that can happen to one partition.

`search.explore(scope)` goes from state to state over the very machines that brokers and controllers run. Random search
meets a rare order of events now and then; this one meets all of them, as far as the scope goes.
"""
